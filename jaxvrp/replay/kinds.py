"""What the episode format asks of each kind; see `jaxvrp.replay.episode`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxvrp.replay.schema import POINT, flag, index, many, number, one_of, optional, record, text

STATUS = ("onboard", "flying", "returning", "crashed")
"""Of a drone, in the order of `jaxvrp.envs.truck_drone.world`."""


def _truck_drone(episode: dict[str, Any]) -> None:
    record(
        map=record(x=POINT, y=POINT),
        nodes=many(record(position=POINT)),
        customers=many(record()),
        max_battery=number,
    )(episode, "")
    drones = sum(agent["role"] == "drone" for agent in episode["agents"])
    customer = index(len(episode["customers"]))
    drone = record(
        position=POINT,
        velocity=POINT,
        battery=number,
        status=one_of(*STATUS),
        carrying=optional(customer),
        target=optional(POINT),
        forced_return=flag,
    )
    record(
        customers=many(
            record(
                position=POINT,
                demand=number,
                window=POINT,
                served_at=optional(index()),
                served_by=optional(index(drones)),
                late=number,
            )
        ),
        steps=many(
            record(truck=record(position=POINT, velocity=POINT), drones=many(drone, drones), served=many(customer))
        ),
    )(episode, "")


def _darp(episode: dict[str, Any]) -> None:
    record(nodes=many(record(), least=1), vehicles=many(record(name=text, capacity=number)))(episode, "")
    node, vehicle = index(len(episode["nodes"])), index(len(episode["vehicles"]))
    record(
        nodes=many(
            record(
                position=POINT,
                demand=number,
                window=many(optional(number), length=2),
                service_time=number,
                vehicle=optional(vehicle),
                begin=optional(number),
                late=number,
            )
        ),
        requests=many(
            record(
                request=index((len(episode["nodes"]) + 1) // 2, least=1),
                delivered=flag,
                ride=optional(number),
                too_long=flag,
            )
        ),
        legs=many(
            record(
                **{"step": index(len(episode["steps"])), "from": node, "to": node},
                vehicle=vehicle,
                leave=number,
                begin=number,
                load_before=number,
                load=number,
            )
        ),
        span=POINT,
        verdict=text,
        steps=many(record(vehicle=vehicle, node=node, clock=number, load=number, distance=number)),
    )(episode, "")


def _pcb(episode: dict[str, Any]) -> None:
    record(components=many(record(), least=1), nets=many(record(rail=index())))(episode, "")
    count = len(episode["components"])
    record(
        outline=POINT,
        components=many(record(name=text, size=POINT, fixed=flag, side=index(2))),
        pins=many(record(component=index(count), offset=POINT, net=optional(index(len(episode["nets"]))))),
        agents=many(record(component=index(count))),
        steps=many(
            record(
                positions=many(POINT, count),
                orientations=many(index(4), count),
                hpwl=number,
                overlap=many(number, count),
            )
        ),
    )(episode, "")


KINDS: dict[str, Callable[[dict[str, Any]], None]] = {"truck_drone": _truck_drone, "darp": _darp, "pcb": _pcb}
