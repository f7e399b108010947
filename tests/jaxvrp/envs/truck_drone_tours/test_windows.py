"""Problems of tandems with time windows as data: fields, files of Kuo et al., padding."""

import re

import numpy as np
import pytest

import jaxvrp
from jaxvrp.envs import tsp_drone
from jaxvrp.envs.truck_and_drone.instance import as_float32
from jaxvrp.envs.truck_drone_tours import load, make_instance, pad, read_kuo, save, stack
from jaxvrp.io.problems.problem_files import UnknownFormatError

FIELDS = {
    "demand": [0, 2, 7],
    "opens": [0, 0, 60],
    "closes": [480, 480, 90],
    "service": [0, 10, 10],
    "truck_capacity": 1400,
    "drone_capacity": 5,
    "endurance": 30,
    "truck_price": 1.0,
    "drone_price": 0.1,
}
LOCS = [[0, 0], [3, 0], [0, 4]]
FILE = "x,y,demand,open,close,servicetime\n0,0,0,0,480,0\n3,0,2,0,480,10\n0,4,7,60,90,10\n"


def test_what_the_drone_cannot_carry_it_may_not_serve():
    np.testing.assert_array_equal(make_instance(LOCS, **FIELDS).no_fly, [False, False, True])
    np.testing.assert_array_equal(make_instance(LOCS, no_fly=[0, 1, 0], **FIELDS).no_fly, [False, True, True])


def test_the_file_of_kuo(tmp_path, assert_same):
    path = tmp_path / "instance.csv"
    path.write_text(FILE)
    instance = read_kuo(path, truck_price=1.0, drone_price=0.1)
    times = {"launch_time": 1, "recovery_time": 1, "truck_pace": 60 / 35, "drone_pace": 60 / 50}
    assert_same(instance, make_instance(LOCS, **times, **FIELDS))
    assert read_kuo(path).truck_price == pytest.approx(0.127351)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            FILE.replace("demand", "load"),
            "line 1: expected the line 'x,y,demand,open,close,servicetime', found 'x,y,lo",
        ),
        (FILE.replace("3,0,2,0,480,10", "3,0,2,0,480"), "line 3: expected the 6 fields"),
        (FILE.replace("0,4,7,60", "0,4,much,60"), "line 4: expected a number below"),
        (FILE[:33], "line 1: expected a line for each node"),
        (FILE.replace("60,90", "60,50"), "closes of node 2 lies before opens"),
        (FILE.replace("60,90", "0,6"), "node 2 cannot be reached within its window"),
        (FILE.replace("0,4,7,60,90", "0,4,7,465,480"), "node 2 cannot be reached within its window"),
        (FILE.replace("0,4,7", "0,4,1500"), "demand of node 2 exceeds truck_capacity"),
        (FILE.replace("0,0,0,0", "0,0,1,0"), "demand of the depot (node 0) is 1"),
    ],
)
def test_a_damaged_file_is_one_line(text, says, tmp_path):
    (tmp_path / "instance.csv").write_text(text)
    with pytest.raises(ValueError, match=re.escape(says)):
        read_kuo(tmp_path / "instance.csv")


def test_fields_of_time_windows_are_all_there_or_none():
    with pytest.raises(ValueError, match="service is missing"):
        make_instance(LOCS, **{name: value for name, value in FIELDS.items() if name != "service"})
    with pytest.raises(ValueError, match="load is no field of an instance"):
        make_instance(LOCS, load=3)
    with pytest.raises(ValueError, match="give none of max_flight, truck_time, depot_launch_time, max_sortie"):
        make_instance(LOCS, max_flight=3, **FIELDS)


def test_windows_are_padded_stacked_saved_and_loaded(tmp_path, assert_same):
    instance = make_instance(LOCS, **FIELDS)
    batch = stack([instance, make_instance(LOCS[:1], **{**FIELDS, **{name: [0] for name in list(FIELDS)[:4]}})])
    assert batch.closes.shape == (2, 3)
    for each in (instance, batch):
        save(tmp_path / "one.npz", each)
        assert_same(load(tmp_path / "one.npz"), each)
    assert pad(instance, 5).demand.tolist() == [0, 2, 7, 0, 0]
    assert as_float32(instance).opens.dtype == np.float32
    with pytest.raises(ValueError, match="stack those of one kind"):
        stack([instance, tsp_drone.make_instance(LOCS)])
    with pytest.raises(ValueError, match="cannot hold time windows"):
        tsp_drone.write_agatz(tmp_path / "one.txt", make_instance(LOCS, **FIELDS))


def test_the_other_kind_is_refused_by_name(tmp_path):
    plain, tandems = tsp_drone.make_instance(LOCS), make_instance(LOCS, **FIELDS)
    with pytest.raises(TypeError, match="demand"):
        tsp_drone.make_instance(LOCS, demand=FIELDS["demand"])
    for name, other in (("truck_drone_tours", plain), ("tsp_drone", tandems)):
        with pytest.raises(ValueError, match="time windows; make '"):
            jaxvrp.make(name, num_nodes=3).init_state(other)
    for write, instance, read in ((save, tandems, tsp_drone.load), (tsp_drone.save, plain, load)):
        write(tmp_path / "one.npz", instance)
        with pytest.raises(UnknownFormatError, match="time windows; make '"):
            read(tmp_path / "one.npz")
