"""Lines of text: what is read, and that a mistake is named with file, line, expectation and remedy."""

from pathlib import Path

import pytest

from jaxvrp.io import text_lines
from jaxvrp.io.text_lines import Line, read_lines, read_table

LINE = Line(Path("hand.txt"), 7, "a, b")


def refused(call, *arguments, **options):
    with pytest.raises(ValueError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def file(tmp_path):
    """`file(content)`: its path."""

    def write(content):
        path = tmp_path / "hand.txt"
        path.write_bytes(content)
        return path

    return write


def test_lines_know_their_numbers_and_blank_ones_are_left_out(file):
    path = file("\ufeff\n  one \r\n\n\t\ntwo\u00e9\n".encode())
    assert [(line.path, line.number, line.text) for line in read_lines(path, "a list")] == [
        (path, 2, "one"),
        (path, 5, "twoé"),
    ]


@pytest.mark.parametrize("content", [b"", b"\n \n\t"])
def test_an_empty_file_is_refused(file, content):
    path = file(content)
    assert refused(read_lines, path, "a list") == f"{path}, line 1: expected a list, found an empty file; give one"
    message = f"{path}, line 1: expected 'name number', found an empty file; give a list"
    assert refused(read_lines, path, "a list", "'name number'") == message


def test_a_binary_file_is_refused(file):
    path = file(b"ab\xff\xfe")
    assert refused(read_lines, path, "a list") == f"{path}, byte 2: expected text, found binary data; give a list"


def test_a_missing_file_stays_an_operating_system_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_lines(tmp_path / "none.txt", "a list")


def test_a_line_without_end_is_refused(file):
    path = file(b"short\n" + b"x" * 10_000 + b"\n" + b"y" * 10_001)
    assert refused(read_lines, path, "a list") == f"{path}, line 3: expected at most 10000 characters; give a list"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no file without end here")
def test_a_file_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(text_lines, "LARGEST_TEXT", 10_000_000)
    assert refused(read_lines, "/dev/zero", "a list") == "/dev/zero is larger than 10 MB; give a smaller file"


def test_an_error_names_file_line_expectation_and_remedy():
    assert str(LINE.error("a word")) == "hand.txt, line 7: expected a word; correct it"
    assert refused(LINE.expect, False, "a word", "add one") == "hand.txt, line 7: expected a word; add one"
    assert LINE.expect(True, "a word") is None


def test_fields_are_between_commas_or_given():
    assert Line(Path(), 1, '"x, y",2').fields(("name", "count")) == {"name": "x, y", "count": "2"}
    assert LINE.fields(("name",), ["x"]) == {"name": "x"}
    remedy = "add or remove what is wrong"
    assert (
        refused(LINE.fields, ("p", "q", "r")) == f"hand.txt, line 7: expected the 3 fields 'p q r', found 2; {remedy}"
    )
    message = f"hand.txt, line 7: expected the 1 numbers 'p', found 2; {remedy}"
    assert refused(LINE.fields, ("p",), ["1", "2"], what="numbers") == message
    assert "correct the quotes" in refused(Line(Path(), 1, '"x').fields, ("p",))


@pytest.mark.parametrize(("word", "value"), [("1.5", 1.5), ("-2", -2.0), ("1e3", 1000.0), ("-999999999999", -1e12 + 1)])
def test_numbers_are_read(word, value):
    assert LINE.real("x", word) == value


@pytest.mark.parametrize("word", ["", "x", "nan", "inf", "-inf", "1e12", "-1e300", "1,5"])
def test_what_is_no_usable_number_is_refused(word):
    assert refused(LINE.real, "x", word) == (
        f"hand.txt, line 7: expected a number below 1000000000000 for x, found {word!r}; correct it"
    )


def test_long_words_are_cut_in_messages():
    assert f"found '{'x' * 20}';" in refused(LINE.real, "x", "x" * 50)


@pytest.mark.parametrize(
    ("word", "bounds", "wanted"),
    [
        ("1.5", {}, "a whole number"),
        ("0", {"minimum": 1}, "a whole number of at least 1"),
        ("1.5", {"below": 10}, "a whole number below 10"),
        ("-10", {"below": 10}, "a whole number below 10"),
        ("inf", {"below": 10}, "a whole number below 10"),
        ("nan", {"below": 10}, "a whole number below 10"),
        ("x", {"below": 10, "minimum": 2}, "a whole number below 10 of at least 2"),
        ("x", {}, "a number below 1000000000000"),
    ],
)
def test_what_is_no_whole_number_in_range_is_refused(word, bounds, wanted):
    assert refused(LINE.whole, "n", word, **bounds) == (
        f"hand.txt, line 7: expected {wanted} for n, found {word!r}; correct it"
    )


def test_whole_numbers_are_read():
    found = [LINE.whole("n", "3"), LINE.whole("n", "-4.0", below=10), LINE.whole("n", "1e3", minimum=1000)]
    assert found == [3, -4, 1000] and all(type(number) is int for number in found)


def test_a_table_has_its_columns_and_each_line_all_of_them(file):
    path = file(b"name,cost,note\na,1,\nb,2,x\n")
    rows = [(line.number, row["name"], row["cost"]) for line, row in read_table(path, "costs", ("cost", "name"))]
    assert rows == [(2, "a", "1"), (3, "b", "2")]
    assert refused(read_table, path, "costs", ("price",)).startswith(f"{path}, line 1: expected columns price")
    short = read_table(file(b"name,cost\na\n"), "costs", ("cost",))
    assert "line 2: expected the 2 fields 'name cost', found 1" in refused(list, short)
