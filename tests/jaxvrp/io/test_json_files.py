"""JSON of others: what is read is what was written, and the rest is one line."""

import json
import os
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxvrp.io import json_files
from jaxvrp.io.command_line import UserError
from jaxvrp.io.json_files import parse_json, plain, read_json
from jaxvrp.io.problems.problem_files import UnknownFormatError
from train import solve

SCALARS = (
    st.none()
    | st.booleans()
    | st.text()
    | st.integers(-(10**18) + 1, 10**18 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@settings(max_examples=40)
@given(VALUES)
def test_what_was_written_is_read(value):
    assert parse_json(json.dumps(value)) == value


def test_a_number_without_a_fraction_is_a_whole_one():
    found = parse_json("[4.0, 4e2, -1.0, 1.5, 1e300, 9007199254740994.0]")
    assert found == [4, 400, -1, 1.5, 1e300, 9007199254740994.0]
    assert [type(number) for number in found] == [int, int, int, float, float, float]
    assert plain({"a": 4.0, "b": None, "c": [None, {"d": None, "e": True}]}) == {"a": 4, "c": [None, {"e": True}]}
    assert type(plain([4.0])[0]) is int and plain(True) is True


def nested(depth):
    return "[" * depth + "]" * depth


def test_up_to_32_lists_and_objects_lie_within_each_other():
    assert parse_json(nested(32)) == json.loads(nested(32))
    assert parse_json('{"a": ' * 16 + nested(16) + "}" * 16)["a"]["a"]
    for text in (nested(33), '{"a": ' * 17 + nested(16) + "}" * 17, nested(100_000), "[" * 100_000):
        with pytest.raises(ValueError, match=r"^more than 32 lists and objects within each other$"):
            parse_json(text)


REFUSED = {
    "": "Expecting value: line 1 column 1 (char 0)",
    "{": "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    '{"a": 1, "b": {"a": 2}, "a": 3}': "the key 'a' stands twice in an object",
    '{"%s": 1, "%s": 2}'
    % (("x" * 99,) * 2): "the key 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ... stands twice in an object",
    "9" * 19: "a whole number of 19 digits; up to 18 are read",
    "-" + "9" * 5000: "a whole number of 5000 digits; up to 18 are read",
    "[1e999]": "the number '1e999' is not finite",
    "[NaN]": "the number 'NaN' is not finite",
    "[-Infinity]": "the number '-Infinity' is not finite",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=range(len(REFUSED)))
def test_the_rest_is_one_line(tmp_path, text, message):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path} is no JSON ({message}); write another')}$"):
        read_json(path, "write another")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "a.json").write_bytes(b"\xff\x00")
    with pytest.raises(ValueError, match=r"a\.json, byte 0: expected text, found binary data; write another$"):
        read_json(tmp_path / "a.json", "write another")


def test_a_missing_file_stays_an_operating_system_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none.json", "write another")


def test_a_late_second_key_is_found_in_linear_time(tmp_path):
    text = json.dumps({f"k{number}": number for number in range(200_000)})
    start = time.process_time()
    with pytest.raises(ValueError, match=r"^the key 'k199999' stands twice in an object$"):
        parse_json(f'{text[:-1]}, "k199999": 1}}')
    assert time.process_time() - start < 5  # counting each name took minutes


def test_a_file_that_names_its_format_is_parsed_once(tmp_path, monkeypatch):
    parsed = []
    monkeypatch.setattr(json_files, "parse_json", lambda text: parsed.append(text) or parse_json(text))
    path = tmp_path / "map.json"
    path.write_text('{"horizon": 1, "format" : "jaxvrp-truck-drone-1"}')
    with pytest.raises(UserError, match="truck_drone: "):
        solve.open_problem(path)
    assert len(parsed) == 1
    # The format of a part comes first, and a name quotes another.
    path.write_text(r'{"name": "\"format\": \"b\"", "day": {"format": "a"}, "format": "moment"}')
    assert read_json(path, "write another", ("moment",))["format"] == "moment"
    with pytest.raises(UnknownFormatError, match=r"map\.json: format is 'a'; it must be one of: b$"):
        read_json(path, "write another", ("b",))


def test_files_that_take_long_are_refused_before_they_are_parsed(tmp_path):
    path = tmp_path / "many.json"
    path.write_text(f"[{'[],' * 500_000}[]]")
    with pytest.raises(ValueError, match=r"many\.json holds more than 1000000 values; give a smaller file$"):
        read_json(path, "write another")
    os.truncate(path, 2**40)
    with pytest.raises(ValueError, match=r"many\.json is larger than 16\.8 MB; give a smaller file$"):
        read_json(path, "write another")
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=r"many\.json is a device; give a file$"):
        read_json(path, "write another")
