"""Rules that decide: what each chooses, and that knowing the future pays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp import registry
from jaxvrp.envs.dispatch import Stop, solution_report
from jaxvrp.envs.dispatch.baselines import hindsight, whole_day
from jaxvrp.envs.dispatch.baselines.greedy import AcceptActor, CoverActor, ThresholdActor
from jaxvrp.envs.dispatch.baselines.hindsight import with_hindsight
from jaxvrp.envs.dispatch.baselines.whole_day import Row
from jaxvrp.envs.dispatch.problem.instance import as_float32
from jaxvrp.envs.dispatch.routes.plans import prepare
from jaxvrp.episodes import play_episodes
from jaxvrp.randomized import randomize
from tests.jaxvrp.envs.dispatch.small_days import COUNT, ENVS, FLEET, PLAYED, REQUESTS, each, padded, play
from train.run.evaluator import baseline_actors


def days_of(scenario, seed, count=16):
    rng = np.random.default_rng(seed)
    return padded([PLAYED[scenario][1](rng) for _ in range(count)])


@pytest.fixture(scope="module")
def states():
    """By scenario, states and timesteps `[T * E]` of days that were driven at random."""
    found = {}
    for scenario, env in ENVS.items():
        played = play(env, days_of(scenario, 1, COUNT), jax.random.key(0), 0.0)[0]
        found[scenario] = jax.tree.map(lambda leaf: leaf[:REQUESTS].reshape(-1, *leaf.shape[2:]), played)
    return found


run = jax.jit(play_episodes, static_argnums=(0, 1))


def chosen(actor, playing):
    action, _ = jax.jit(actor.act)(jax.random.key(3), actor.init(1), *playing)
    return jax.device_get(action)


def test_accept_takes_the_least_added_travel(states):
    state, timestep = jax.device_get(states["same_day"])
    choice = chosen(AcceptActor(), states["same_day"])["dispatcher"][:, 0]
    added = np.where(timestep.action_mask["dispatcher"][:, 0, 1:], state.offers.added, np.inf)
    np.testing.assert_array_equal(choice, np.where(np.isinf(added).all(axis=1), 0, 1 + added.argmin(axis=1)))


def test_a_rule_that_only_repeats_another_is_no_player(states):
    players = {scenario: list(registry.players_of(env).baselines) for scenario, env in ENVS.items()}
    assert players == {"ride_pooling": ["accept", "cover"], "same_day": ["accept", "threshold"]}
    drawn = randomize(ENVS["same_day"], {"max_requests": [2, REQUESTS]})
    assert list(registry.players_of(drawn).baselines) == players["same_day"]
    as_tuned = chosen(ThresholdActor(ENVS["ride_pooling"]), states["ride_pooling"])
    accepted = chosen(AcceptActor(), states["ride_pooling"])
    jax.tree.map(np.testing.assert_array_equal, as_tuned, accepted)
    assert {name: list(baseline_actors(env)) for name, env in ENVS.items()} == {
        name: [*known, "random"] for name, known in players.items()
    }


def test_threshold_sends_drones_far_away(states):
    state, _ = jax.device_get(states["same_day"])
    choice = chosen(ThresholdActor(ENVS["same_day"], 8.0, 0.0, 0.0), states["same_day"])["dispatcher"][:, 0]
    numbers = np.arange(len(choice))
    place = state.prepared.instance.dropoff[numbers, np.minimum(state.step, REQUESTS - 1)]
    far = np.hypot(*place.T) * state.prepared.pace[:, 0] > 8.0
    is_drone = state.prepared.instance.is_drone
    possible = (state.offers.feasible & (is_drone == far[:, None])).any(axis=1)
    got = is_drone[numbers, np.maximum(choice - 1, 0)]
    assert (got == far)[possible].all() and possible.sum() > 50
    np.testing.assert_array_equal(choice > 0, state.offers.feasible.any(axis=1))


@pytest.mark.parametrize("scenario", ENVS)
def test_threshold_rejects_what_is_worth_little_for_its_travel(scenario, states):
    state, _ = jax.device_get(states[scenario])
    numbers = np.arange(len(state.step))
    value = state.prepared.instance.value[numbers, np.minimum(state.step, REQUESTS - 1)]
    floor, rate = np.quantile(value, 0.2), np.float32(0.11)
    choice = chosen(ThresholdActor(ENVS[scenario], 8.0, float(floor), float(rate)), states[scenario])["dispatcher"]
    worth_it = (value[:, None] >= rate * state.offers.added) & (value >= floor)[:, None]
    allowed = state.offers.feasible & worth_it
    np.testing.assert_array_equal(choice[:, 0] > 0, allowed.any(axis=1))
    assert allowed.any() and (state.offers.feasible.any(axis=1) & ~allowed.any(axis=1)).any()
    assert allowed[numbers, choice[:, 0] - 1][choice[:, 0] > 0].all()


def test_cover_sends_the_vehicle_that_is_needed_least_to_where_vehicles_are_needed_most(states):
    state, timestep = jax.device_get(states["ride_pooling"])
    going = chosen(CoverActor(), states["ride_pooling"])["vehicle"]
    legal = np.take_along_axis(timestep.action_mask["vehicle"], going[..., None], axis=-1)[..., 0]
    rows, vehicles = np.nonzero(going)
    assert legal.all() and len(rows) > 20 and len(np.unique(rows)) == len(rows)
    plans, prepared, seen = state.plans, state.prepared, timestep.entities
    zones = seen["zone"].shape[-1]
    each_way, number = round(zones**0.5), np.arange(zones)
    for row, vehicle in zip(rows, vehicles, strict=True):
        instance = jax.tree.map(lambda leaf, row=row: leaf[row], prepared.instance)
        corner, side = instance.area[0], instance.area[1] - instance.area[0]
        middles = corner + (np.stack([number % each_way, number // each_way], axis=1) + 0.5) / each_way * side
        exists = np.flatnonzero(prepared.capacity[row] > 0)
        near, here = np.zeros((len(plans.free[row]), zones)), np.zeros(len(plans.free[row]), int)
        for other in exists:
            stops = np.flatnonzero(np.isfinite(plans.start[row, other]))
            place, busy = plans.goal[row, :, other], plans.free[row, other]
            if stops.size:
                place = plans.stops[row, :2, other, stops[-1]]
                busy = plans.start[row, other, stops[-1]] + instance.stop_time[other]
            way = np.hypot(*(middles - place).T) * prepared.pace[row, other]
            near[other] = np.exp(-(max(busy - state.now[row], 0.0) + way) / (instance.horizon / 30))
            cell = np.clip((place - corner) / side * each_way, 0, each_way - 1e-6).astype(int)
            here[other] = cell[0] + each_way * cell[1]
        demand = (state.demand[row] + 10 / zones) / np.mean(state.demand[row] + 10 / zones)
        without = demand * np.exp(-0.8 * (near.sum(axis=0) - near))
        needed = without[np.arange(len(here)), here]
        need = np.minimum(demand * np.exp(-0.8 * near.sum(axis=0)), 4.0)
        np.testing.assert_allclose(seen["zone"][row, 3:5], [near.sum(axis=0) / len(exists), need], rtol=1e-3)
        np.testing.assert_allclose(seen["vehicle"][row, 20, exists], np.minimum(needed, 4.0)[exists], rtol=1e-3)
        is_idle = seen["vehicle"][row, 4] > 0
        assert needed[vehicle] < needed[is_idle].min() + 1e-3 and seen["vehicle"][row, 21, vehicle] == 1.0
        way = np.hypot(*(middles - plans.place[row, :, vehicle]).T) * prepared.pace[row, vehicle]
        worth = without[vehicle] - 0.005 * way
        assert worth[going[row, vehicle] - 1] > worth.max() - 1e-3
        assert worth.max() > needed[vehicle] + 0.2 - 1e-3
        assert seen["zone"][row, 5].sum() == seen["zone"][row, 5, going[row, vehicle] - 1] == 1


@pytest.mark.slow("ride_pooling", "rides along streets")
@pytest.mark.parametrize("scenario", [*ENVS, "rides along streets"])
def test_hindsight_keeps_every_promise_and_serves_more(scenario):
    env, batch = PLAYED[scenario][0], days_of(scenario, 6)
    plain = run(env, AcceptActor(), batch, jax.random.key(1))
    few, found = (
        jax.device_get(with_hindsight(as_float32(batch), jax.random.key(2), rounds=rounds, max_stops=16))
        for rounds in (1, 200)
    )
    for i, day in enumerate(each(batch)):
        opens = np.maximum(day.pickup_earliest, np.where(day.load > 0, day.arrival, 0.0))
        stops = list(stops_of(day, jax.tree.map(lambda leaf, i=i: leaf[i], found.routes)))
        report = solution_report(day.replace(pickup_earliest=opens), stops)
        broken = {name for name, finding in report.violations.items() if finding.count}
        # A ride's vehicle that knows what comes leaves for it beforehand; it picks up when the request has arrived.
        assert broken <= ({"before_arrival"} if day.depot is None else set()), report.summary()
        np.testing.assert_array_equal(report.served, found.is_served[i])
        assert report.value == pytest.approx(found.value[i], rel=1e-5)
        assert report.travel.sum() == pytest.approx(found.routes.travel[i].sum(), abs=0.1)
    assert (found.value >= plain["value_served"] - 1e-3).all(), "a bound is above every player, on every day"
    assert found.value.mean() > 1.05 * plain["value_served"].mean() and found.value.mean() > few.value.mean()


def stops_of(day, routes):
    """The stops of a whole day, as the independent check reads them."""
    number, mark, start = routes.row.number, routes.row.mark, routes.planes["start"]
    for v in range(FLEET):
        departs, trip, stop_time = 0.0, 0, float(day.stop_time[v])
        for k in np.flatnonzero(number[v] >= 0):
            request, begin = int(number[v, k]), float(start[v, k])
            if day.depot is not None and mark[v, k]:
                way = np.hypot(*(day.dropoff[request] - day.depot)) * 60 * day.detour[v] / day.speed[v]
                trip, departs = trip + 1, begin - float(way) - stop_time
            is_pickup = bool(mark[v, k]) and day.depot is None
            yield Stop(v, request, is_pickup, begin, trip, departs)
            departs = departs if day.depot is not None else begin + stop_time


@pytest.mark.parametrize("scenario", [*ENVS, "rides along streets"])
def test_a_request_at_its_best_place_is_where_trying_all_places_puts_it(scenario):
    """Hindsight's insertion, against building and timing every route that has the request."""
    (day,) = each(days_of(scenario, 11, 1))
    day = day.replace(pickup_earliest=np.maximum(day.pickup_earliest, day.arrival))
    prepared = prepare(as_float32(day))
    routes = hindsight.timed_routes(
        prepared, Row(jnp.full((FLEET, SLOTS), -1, jnp.int32), jnp.zeros((FLEET, SLOTS), bool))
    )
    luck, served = jnp.ones(FLEET), 0
    find, time = jax.jit(whole_day.best_place), jax.jit(whole_day.timed)
    for number in range(REQUESTS):
        place = find(prepared, routes, prepared.request(jnp.int32(number)), luck)
        costs = {}
        for v in range(FLEET):
            for row in rows_with(jax.tree.map(lambda leaf, v=v: np.asarray(leaf[v]), routes.row), number, day.depot):
                if feasible(day, v, row, time(prepared, v, row)):
                    costs[v, tuple(row.number), tuple(row.mark)] = float(time(prepared, v, row).travel)
        before = np.asarray(routes.travel)
        assert bool(place.exists) == bool(costs)
        if costs:
            served += 1
            route = time(prepared, place.vehicle, place.row)
            least = min(cost - before[v] for (v, *_), cost in costs.items())
            assert float(route.travel) - before[int(place.vehicle)] == pytest.approx(least, abs=5e-3)
            v = int(place.vehicle)
            routes = jax.tree.map(lambda all_, new, v=v: all_.at[v].set(new), routes, route)
    assert served >= 4


SLOTS = 2 * REQUESTS + 2


def rows_with(row, number, depot):
    """Every row that has a request more."""
    count = int((row.number >= 0).sum())

    def put(numbers, marks, at, mark):
        return np.insert(numbers, at, number)[:SLOTS], np.insert(marks, at, mark)[:SLOTS]

    for at in range(count + 1):
        if depot is None:
            for later in range(at + 1, count + 2):
                yield Row(*put(*put(row.number, row.mark, at, True), later, False))
            continue
        first = at == count or row.mark[at]
        if first:
            yield Row(*put(row.number, row.mark, at, True))  # a trip of its own
        if first and at < count:
            numbers, marks = put(row.number, row.mark, at, True)
            marks[at + 1] = False
            yield Row(numbers, marks)
        if at > 0:
            yield Row(*put(row.number, row.mark, at, False))


def feasible(day, v, row, route):
    """By the independent check, for one vehicle."""
    routes = jax.tree.map(lambda leaf: np.zeros((FLEET, *leaf.shape), leaf.dtype), jax.device_get(route))
    routes.row.number[:] = -1
    for whole, part in zip(jax.tree.leaves(routes), jax.tree.leaves(jax.device_get(route)), strict=True):
        whole[v] = part
    report = solution_report(day, list(stops_of(day, routes)), tolerance=5e-3)
    return not {name for name, found in report.violations.items() if found.count} - {"before_arrival"}
