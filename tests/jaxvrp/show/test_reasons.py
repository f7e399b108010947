"""Why actions are masked: exactly the masked ones have a reason, and its amount is what the NumPy references say."""

import functools

import jax
import numpy as np
import pytest

import jaxvrp
from benchmarks.reference.darp import NumpyDarp, feasible_schedule
from benchmarks.reference.dispatch import NumpyDispatch
from benchmarks.reference.truck_drone import CRASHED, NOBODY, ONBOARD, NumpyTruckDrone
from benchmarks.reference.tsp_drone import NumpyTspDrone
from benchmarks.reference.vrpd_tw import NumpyVrpdTw
from jaxvrp.actor import RandomActor
from jaxvrp.envs import darp, truck_drone, tsp_drone
from jaxvrp.envs.darp.problem.instance import as_float32
from jaxvrp.envs.darp.shown import reasons as darp_reasons
from jaxvrp.envs.darp.shown.reasons import Why as DarpWhy
from jaxvrp.envs.dispatch.shown import reasons as dispatch_reasons
from jaxvrp.envs.dispatch.shown.reasons import Why
from jaxvrp.envs.pcb.shown.replay import move_outcome
from jaxvrp.envs.truck_and_drone.instance import as_float32 as tsp_as_float32
from jaxvrp.envs.truck_drone.problem.naming import naming_of
from jaxvrp.envs.truck_drone.scenarios import TruckDroneBasic
from jaxvrp.envs.truck_drone.shown import reasons as truck_reasons
from jaxvrp.envs.truck_drone.shown.reasons import Why as TruckWhy
from jaxvrp.envs.tsp_drone.shown import reasons as tsp_reasons
from jaxvrp.envs.tsp_drone.shown.reasons import Why as TspWhy
from jaxvrp.episodes import from_states, record_episode
from jaxvrp.io.messages import number
from jaxvrp.show import export_episode
from tests.jaxvrp.envs.dispatch import small_days
from tests.jaxvrp.show.conftest import play

NAMES = naming_of(truck_drone.make(num_route_nodes=4).generate(jax.random.key(0)), 2, None)
"""Of two drones, three customers and four nodes."""


def explained(env, states, reasons):
    """Causes `{role: Cause [..., agents, actions]}`, whose kinds are checked against the masks of the environment."""
    axes = states.step.ndim
    explain = functools.reduce(
        lambda f, _: jax.vmap(f), range(axes), lambda s: (reasons.explain(s), env.action_mask(s))
    )
    causes, masks = jax.device_get(jax.jit(explain)(states))
    for role, mask in masks.items():
        np.testing.assert_array_equal(causes[role].kind == 0, mask, err_msg=role)
    return causes


def kinds_of(causes):
    return {kind for cause in causes.values() for kind in np.unique(cause.kind).tolist()} - {0}


def play_all(env, instances, seed):
    """States and actions `[E, T + 1, ...]` of random episodes, on the host; one compilation for all."""
    keys = jax.random.split(jax.random.key(seed), jax.tree.leaves(instances)[0].shape[0])
    run = jax.jit(jax.vmap(lambda instance, key: record_episode(env, RandomActor(env), instance, key)))
    episodes = jax.device_get(run(instances, keys))
    return episodes.states, episodes.actions


def drawn(env, count, seed):
    return jax.jit(jax.vmap(env.generate))(jax.random.split(jax.random.key(seed), count))


def episode_at(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


@functools.cache
def dispatched():
    """Random play of `vrpd_tw`, some customers known late: environment, states, actions `[E, T + 1, ...]`."""
    env = jaxvrp.make(
        "vrpd_tw", num_drones=2, num_customers=3, num_route_nodes=4, max_steps=40, dynamic_share=0.7, hover_cost=0.05
    )
    return env, *play_all(env, drawn(env, 8, 3), 6)


def replayed(reference, states, actions):
    """The reference at every step of an episode until its end, with the index of the step."""
    given = {name: leaf[0] for name, leaf in vars(states.instance).items() if leaf is not None}
    reference.reset_to(given)
    for at, (truck, drones) in enumerate(zip(actions["truck"][:, 0], actions["drone"], strict=True)):
        yield at, reference
        if reference.step(truck, drones)[1]:
            return


def of_truck_and_drones(reference, causes, at):
    """Compare one step: why each RECOVER, RETURN and DELIVER is masked, by the state of the reference."""
    reach = float(reference.recovery_threshold)
    truck, drone = (jax.tree.map(lambda leaf: leaf[at], causes[role]) for role in ("truck", "drone"))
    gap = np.linalg.norm(np.float64(reference.drone_position) - reference.truck_position, axis=1)
    for index in range(reference.num_drones):
        status, carried = reference.status[index], reference.carrying[index]
        recover = reference.recover + index
        if truck.kind[0, recover] == TruckWhy.TOO_FAR:
            assert truck.amount[0, recover] == pytest.approx(gap[index] - reach, abs=1e-6)
        given = {TruckWhy(kind).words for kind in drone.kind[index, 1:].tolist()}
        if status == CRASHED:
            assert given == {"has crashed"}
            continue
        if status == ONBOARD:
            assert given == {"on board: the truck has to release it first"}
            continue
        for customer in range(reference.num_customers):
            kind, amount = drone.kind[index, 2 + customer], drone.amount[index, 2 + customer]
            if kind == TruckWhy.SERVED:
                assert reference.served[customer] and amount == reference.arrival_step[customer]
            elif kind == TruckWhy.UNKNOWN:
                assert amount == reference.known_from[customer] > at
            elif kind == TruckWhy.CARRIES:
                assert carried not in (NOBODY, customer) and drone.other[index, 2 + customer] == carried
            elif kind == TruckWhy.LOADED_AT_TRUCK:
                assert carried == NOBODY and amount == pytest.approx(gap[index] - reach, abs=1e-6) and amount > 0


def test_truck_and_drones_by_the_reference(deliveries):
    env, states, actions, _ = deliveries
    causes = explained(env, states, truck_reasons.reasons_of(env, NAMES))
    assert kinds_of(causes) >= {TruckWhy.IN_THE_AIR, TruckWhy.BOARDED, TruckWhy.TOO_FAR}
    assert kinds_of(causes) >= {TruckWhy.ON_BOARD, TruckWhy.SERVED, TruckWhy.CARRIES}
    parameters = {name: float(getattr(env, name)) for name in NumpyTruckDrone.defaults}
    reference = NumpyTruckDrone(2, 3, 4, 40, **parameters)
    for at, now in replayed(reference, states, actions):
        of_truck_and_drones(now, causes, at)


@pytest.mark.slow
def test_time_windows_and_loading_by_the_reference():
    env, states, actions = dispatched()
    causes = explained(env, states, truck_reasons.reasons_of(env, NAMES))
    assert kinds_of(causes) >= {TruckWhy.UNKNOWN, TruckWhy.CARRIES, TruckWhy.LOADED_AT_TRUCK}
    parameters = {name: float(getattr(env, name)) for name in NumpyVrpdTw.defaults}
    for index in range(8):
        played, chosen, why = (episode_at(tree, index) for tree in (states, actions, causes))
        for at, now in replayed(NumpyVrpdTw(2, 3, 4, 40, **parameters), played, chosen):
            of_truck_and_drones(now, why, at)


@pytest.mark.slow("NumpyVrpdTw")
@pytest.mark.parametrize("cls", [NumpyTruckDrone, NumpyVrpdTw])
def test_who_is_sent_home_and_how_much_is_missing(cls, deliveries):
    env, states, actions = deliveries[:3]
    if cls is NumpyVrpdTw:
        env, states, actions = dispatched()
        index = int(states.drones.forced_return.any(axis=2).sum(axis=1).argmax())
        states, actions = episode_at(states, index), episode_at(actions, index)
    parameters = {name: float(getattr(env, name)) for name in cls.defaults}
    steps, said, forced = export_episode(from_states(env, states, actions))["steps"], {}, {}
    for at, now in replayed(cls(2, 3, 4, 40, **parameters), states, actions):
        words = steps[at].get("instead", {}).get("drone", [])
        said |= {(at, drone): text for drone, text in enumerate(words) if text}
        needed = now.forced_return_factor * now._consumption() * (now._gap() + now.drone_stride)
        missing, airborne = needed - now.battery, now._airborne()
        legal = now._legal(actions["truck"][at, 0], actions["drone"][at])[1]
        guarded = np.flatnonzero(airborne & (missing > 0) & (legal != 1)).tolist()
        forced |= {(at, drone): float(missing[drone]) for drone in guarded}
    assert forced, "else this test tells nothing"
    assert said == {key: f"sent home: battery short by {number(missing)}" for key, missing in forced.items()}


def test_a_scenario_with_rules_of_its_own_has_no_reasons(deliveries):
    class Careful(TruckDroneBasic):
        def action_mask(self, state):
            return super().action_mask(state)

    assert truck_reasons.reasons_of(truck_drone.make(Careful), NAMES) is None
    assert truck_reasons.reasons_of(deliveries[0], NAMES) is not None


def check_darp(causes, states, actions, reference):
    """Compare kinds and amounts of every step with what the reference finds in its own state."""
    reference.reset_to(jax.tree.map(lambda leaf: leaf[0], states.instance))
    given = jax.tree.map(lambda leaf: np.asarray(leaf[0], np.float64), states.instance)
    for at, action in enumerate(actions["vehicle"][:, 0]):
        kinds, amounts = causes.kind[at, 0], causes.amount[at, 0]
        arrival, _, departure = reference._timing()
        home = departure + reference._travel[:, 0]
        expected = {
            DarpWhy.NO_ROOM: reference.current_load + given.demand - given.capacity[reference.current_agent],
            DarpWhy.WINDOW_CLOSED: reference.current_time - given.deadline,
            DarpWhy.WINDOW_CLOSES: arrival - given.deadline,
            DarpWhy.TOO_LATE_FOR_A_PLAN: arrival - reference.instance.deadline,
            DarpWhy.DEPOT_CLOSES: home - given.deadline[0],
            DarpWhy.ON_BOARD: np.full(len(kinds), reference.current_load),
        }
        for kind, values in expected.items():
            np.testing.assert_allclose(amounts[kinds == kind], values[kinds == kind], atol=2e-3)
        for node in np.flatnonzero(kinds == DarpWhy.STRANDS).tolist():
            check_stranding(reference, node, int(causes.other[at, 0, node]), amounts[node])
        for node in np.flatnonzero(np.isin(kinds, (DarpWhy.RIDE_TOO_LONG, DarpWhy.TOUR_TOO_LONG))).tolist():
            assert not feasible_schedule(reference.instance, [*reference.route, node, 0], 1e-3)
        visited_pickup = np.roll(reference.visited, 1) & ~np.roll(reference.picked_up_by_current, 1)
        with_another = kinds == DarpWhy.WITH_ANOTHER
        assert visited_pickup[with_another].all() and (np.flatnonzero(with_another) % 2 == 0).all()
        if reference.step(int(action))[1]:
            return


def check_stranding(reference, node, request, amount):
    """Without limits, the passenger of the request would be that late, going straight there after the node."""
    drop_off = 2 * request
    assert reference._onboard()[drop_off] or node == drop_off - 1
    if reference.limits:
        assert amount > 0 and not feasible_schedule(reference.instance, [*reference.route, node, drop_off], 1e-3)
        return
    departure = reference._timing()[2]
    late = departure[node] + reference._travel[node, drop_off] - reference.instance.deadline[drop_off]
    assert amount == pytest.approx(late, abs=2e-3)


def test_rides_by_the_reference(rides):
    env, states, actions, _ = rides
    causes = explained(env, states, darp_reasons.reasons_of(env))
    check_darp(causes["vehicle"], states, actions, NumpyDarp(10, 3))
    wanted = {DarpWhy.MISSING, DarpWhy.VISITED, DarpWhy.WAITS_AT_PICKUP, DarpWhy.IS_THERE}
    assert kinds_of(causes) >= wanted


def check_generated(env, count, wanted, **reference):
    """As `check_darp`, of random episodes on generated instances; all `wanted` kinds have to come up."""
    states, actions = play_all(env, drawn(env, count, 0), 1)
    causes = explained(env, states, darp_reasons.reasons_of(env))
    for index in range(count):
        episode = [episode_at(tree, index) for tree in (causes["vehicle"], states, actions)]
        check_darp(*episode, NumpyDarp(env.num_nodes, env.num_agents, **reference))
    assert kinds_of(causes) >= wanted


@pytest.mark.slow
def test_rides_that_look_ahead_by_the_reference():
    env = darp.make(num_nodes=12, num_agents=3, lookahead=True, vehicle_speed=12.0, vehicle_capacity=3)
    wanted = {DarpWhy.STRANDS, DarpWhy.WINDOW_CLOSES, DarpWhy.WINDOW_CLOSED, DarpWhy.NO_ROOM}
    check_generated(env, 16, wanted, lookahead=True)


@pytest.mark.slow
def test_rides_within_limits_by_the_reference():
    env = darp.make(num_nodes=12, num_agents=2, instances="cordeau", limits=True, lookahead=True)
    wanted = {DarpWhy.TOO_LATE_FOR_A_PLAN, DarpWhy.STRANDS, DarpWhy.WITH_ANOTHER}
    check_generated(env, 16, wanted, limits=True, lookahead=True)


def check_sorties(causes, states, actions, reference):
    """Compare every step; flights beyond the range are measured by hand."""
    reference.reset_to(jax.tree.map(lambda leaf: leaf[0], states.instance))
    most = float(states.instance.max_flight[0])
    for at in range(len(actions["truck"])):
        drone, truck = (episode_at(causes[role], (at, 0)) for role in ("drone", "truck"))
        between, here = reference.drone_distance, reference.truck
        back = between[reference.customer]
        flown = between[reference.launch, reference.customer]
        if drone.kind[1] == TspWhy.MEETS_TOO_FAR:
            assert drone.amount[1] == pytest.approx(flown + back[here] - most, abs=1e-4)
        for node in np.flatnonzero(truck.kind == TspWhy.TOO_FAR_TO_MEET).tolist():
            assert truck.amount[node] == pytest.approx(flown + back[node] - most, abs=1e-4)
        for customer in np.flatnonzero(drone.kind[2:] == TspWhy.FLIGHT_TOO_LONG).tolist():
            others = [node for node in np.flatnonzero(reference.exists).tolist() if node != customer]
            nearest = min(between[customer, node] for node in others)
            assert drone.amount[2 + customer] == pytest.approx(between[here, customer] + nearest - most, abs=1e-4)
        left = truck.kind == TspWhy.CUSTOMERS_LEFT
        assert (truck.amount[left] == np.count_nonzero(~reference.served)).all()
        if reference.step(int(actions["drone"][at, 0]), int(actions["truck"][at, 0]))[1]:
            return


def short_flights(count, **limits):
    """Instances at random places, in which one customer may not be flown to."""
    rng, limits = np.random.default_rng(0), {"max_flight": 16, "no_fly": np.arange(7) == 3, **limits}
    given = [tsp_drone.make_instance(rng.uniform(-10, 10, (7, 2)), **limits) for _ in range(count)]
    return tsp_as_float32(tsp_drone.stack(given))


def test_sorties_by_the_reference():
    env, wanted = tsp_drone.make(num_nodes=7), {TspWhy.OTHERS_TURN, TspWhy.SERVED, TspWhy.AWAY}
    states, actions = play_all(env, short_flights(16), 2)
    causes = explained(env, states, tsp_reasons.reasons_of(env))
    for index in range(16):
        check_sorties(*(episode_at(tree, index) for tree in (causes, states, actions)), NumpyTspDrone(7))
    wanted |= {TspWhy.CUSTOMERS_LEFT, TspWhy.NO_FLY, TspWhy.MUST_MEET, TspWhy.MEETS_TOO_FAR}
    assert kinds_of(causes) >= wanted | {TspWhy.FLIGHT_TOO_LONG, TspWhy.TOO_FAR_TO_MEET}


def test_a_meeting_is_too_far_or_too_late():
    env = tsp_drone.make(num_nodes=7)
    states, _ = play_all(env, short_flights(16, max_flight=30, max_sortie=12), 2)
    causes = explained(env, states, tsp_reasons.reasons_of(env))
    assert TspWhy.TOO_FAR_TO_MEET in kinds_of(causes)
    for cause in causes.values():
        assert (cause.kind == TspWhy.TOO_LATE_TO_MEET).any()
        too_far = np.isin(cause.kind, (TspWhy.MEETS_TOO_FAR, TspWhy.TOO_FAR_TO_MEET))
        assert (cause.amount[too_far] > 0).all()


@pytest.mark.slow
def test_sorties_without_revisits():
    env = tsp_drone.make(num_nodes=7, allow_revisits=False)
    states, _ = play_all(env, short_flights(16), 2)
    kinds = kinds_of(explained(env, states, tsp_reasons.reasons_of(env)))
    assert kinds >= {TspWhy.NO_FLY, TspWhy.DRONES, TspWhy.NO_LATER}


# --- what is exported -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["truck_drone", "darp", "tsp_drone"])
def test_every_masked_action_has_one_reason_in_the_file(kind, episodes):
    for step in episodes[kind]["steps"]:
        for role, rows in step["mask"].items():
            for row, groups in zip(rows, step["why"][role], strict=True):
                forbidden = sorted(action for _, actions in groups for action in actions)
                assert forbidden == [action for action, digit in enumerate(row) if digit == "0"]
                assert len({text for text, _ in groups}) == len(groups)


def test_who_was_not_served_and_why(episodes, rides):
    drop_offs = [place for place in episodes["darp"]["story"]["places"] if place["kind"] == "drop-off"]
    unserved = [place["label"] for place in drop_offs if place["standings"][-1]["name"] == "lost"]
    whys = {entry["name"]: entry["why"] for entry in episodes["darp"]["shortfalls"]["entries"]}
    assert list(whys) == [f"request {request}" for request in unserved]
    customers = [place for place in episodes["truck_drone"]["story"]["places"] if place["kind"] == "customer"]
    left = [place["name"] for place in customers if place["standings"][-1]["name"] not in ("served", "late")]
    assert [entry["name"] for entry in episodes["truck_drone"]["shortfalls"]["entries"]] == left
    assert episodes["tsp_drone"]["shortfalls"]["entries"] == []


@pytest.mark.slow
def test_a_request_that_is_too_far_says_so():
    env = darp.make(num_nodes=4, num_agents=1)
    instance = darp.make_instance(
        [[0, 0], [1, 0], [2, 0], [0, 30], [0, 31]], [0, 1, -1, 1, -1], [99, 9, 9, 10, 99], capacity=[2]
    )
    states, actions, _ = play(env, RandomActor(env), as_float32(instance), jax.random.key(0))
    entries = export_episode(from_states(env, states, actions))["shortfalls"]["entries"]
    assert {"name": "request 2", "why": "could never be fetched: window closes 20 before it can be there"} in entries


@pytest.mark.slow
def test_customers_whom_nobody_could_serve_in_time():
    env, states, actions = dispatched()
    states = episode_at(states, 0)
    episode = export_episode(from_states(env, states, episode_at(actions, 0)))
    last, instance = episode["steps"][-1]["step"], episode_at(states, 0).instance
    for entry in episode["shortfalls"]["entries"]:
        number = int(entry["name"].removeprefix("customer "))
        closed, known_from = last - int(instance.window_end[number]), int(instance.known_from[number])
        assert (f"window closed {closed} step" in entry["why"]) == (closed > 0)
        assert (f"known from step {known_from} on" in entry["why"]) == (known_from > 0)
    assert episode["shortfalls"]["entries"], "else this test tells nothing"


@pytest.mark.parametrize(
    ("action", "end", "says"),
    [
        # The longest step, to the right, from 0.2 mm before the edge: 0.6 mm, of which 0.4 mm are lost.
        ([1.0, -1.0, 0.0], [12.0, 4.0], "stopped at the board's edge, 0.40 mm short of where it was to go"),
        ([0.0, 0.0, 0.0], [11.5, 4.0], None),  # half of it, to the left
        ([None, 0.0, 0.0], [11.8, 4.0], "no move: the action is not finite"),
        ([-3.0, 0.0, 0.0], [11.8, 4.0], "action clipped to its box"),
    ],
)
def test_what_became_of_a_move(action, end, says):
    board = {"outline": [12.0, 15.0], "step_fraction": 0.05, "clamp": True}
    assert move_outcome(action, [11.8, 4.0], end, **board) == says


@pytest.mark.slow
def test_parts_that_overlap_are_told_by_areas(placements):
    env, states, actions, _ = placements
    episode = export_episode(from_states(env, states, actions))
    last, size = episode["steps"][-1], [part["size"] for part in episode["components"]]
    boxes = []
    for centre, turn, sides in zip(last["positions"], last["orientations"], size, strict=True):
        half = np.array(sides[::-1] if turn % 2 else sides) / 2
        boxes.append((np.array(centre) - half, np.array(centre) + half))
    span = np.minimum(boxes[0][1], boxes[1][1]) - np.maximum(boxes[0][0], boxes[1][0])
    area = float(np.prod(np.maximum(span, 0)))
    whys = [entry["why"] for entry in episode["shortfalls"]["entries"]]
    assert any("mm² on fixed part 0" in why for why in whys) == (area > 1e-5)
    assert bool(whys) == (last["overlap"][1] > 1e-5)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(3.0, "3"), (0.0, "0"), (0.0801, "0.080"), (0.25, "0.25"), (12.34, "12.3"), (1e-5, "less than 0.001")],
)
def test_amounts_are_short_and_never_nothing(amount, text):
    assert number(amount) == text


@pytest.mark.parametrize("scenario", small_days.ENVS)
def test_why_a_vehicle_cannot_by_the_reference(scenario):
    """A reason is right if the reference lets the vehicle take the request once that limit is lifted."""
    env = small_days.ENVS[scenario]
    rng = np.random.default_rng(3)
    days = [small_days.DAYS[scenario](rng) for _ in range(48)]
    states, _, actions = _played_days(env, small_days.padded(days))
    causes = explained(env, states, dispatch_reasons.reasons_of(env))
    lifted, seen = {Why.CAPACITY, Why.TRIP, Why.HORIZON, Why.PROMISE, Why.DEADLINE}, set()
    for row, day in enumerate(small_days.each(small_days.padded(days))):
        reference = NumpyDispatch(day, env.max_stops, env.num_zones_each_way, env.travel_price)
        for step in range(reference.num_requests):
            kinds = causes["dispatcher"].kind[step, row, 0, 1:]
            for v, kind in enumerate(kinds.tolist()):
                seen.add(kind)
                if kind in lifted:
                    planned = [stop.request for stop in reference.vehicles[v].stops]
                    reference.day = _without(day, Why(kind), [step] if kind == Why.DEADLINE else planned)
                    offer = reference.offer(v, step)
                    reference.day = day
                    assert offer is not None, (row, step, v, Why(kind))
                if kind == Why.DEADLINE:
                    late = [offer.dropoff_start - float(day.dropoff_deadline[step])]
                    late += [offer.pickup_start - float(day.pickup_deadline[step])] if env.num_zones_each_way else []
                    assert causes["dispatcher"].amount[step, row, 0, 1 + v] == pytest.approx(max(late), abs=2e-3)
                if kind == Why.TOO_LARGE:
                    assert day.load[step] > day.capacity[v]
            zones = actions["vehicle"][step, row] if env.num_zones_each_way else None
            reference.step(int(actions["dispatcher"][step, row, 0]), zones)
    assert seen >= lifted - ({Why.TRIP, Why.HORIZON} if env.num_zones_each_way else set()), seen


def _played_days(env, days):
    states_and_timesteps, actions = small_days.play(env, days, jax.random.key(1), 0.0)
    return *jax.device_get(states_and_timesteps), jax.device_get(actions)


def _without(day, why, requests):
    """The day without one limit; deadlines are those of `requests`."""
    if why in (Why.DEADLINE, Why.PROMISE):
        ends = {name: getattr(day, name).copy() for name in ("pickup_deadline", "dropoff_deadline")}
        for deadline in ends.values():
            deadline[requests] = np.inf
        return day.replace(**ends)
    if why == Why.CAPACITY:
        return day.replace(capacity=np.full_like(day.capacity, 1000))
    return day.replace(**({"max_trip": np.full_like(day.max_trip, np.inf)} if why == Why.TRIP else {"horizon": np.inf}))
