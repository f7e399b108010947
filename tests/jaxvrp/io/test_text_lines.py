"""Lines of text: what is read, and that a mistake is named with file, line, expectation and remedy."""

import os
from decimal import Decimal
from pathlib import Path

import pytest

from benchmarks.published.data import read_table
from jaxvrp.io.json_files import read_json
from jaxvrp.io.text_lines import Line, read_lines
from jaxvrp.io.whole_files import decode_text
from tests.refusals import refusal

LINE = Line(Path("hand.txt"), 7, "a, b")


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
def test_an_empty_file_is_refusal(file, content):
    path = file(content)
    assert refusal(read_lines, path, "a list") == f"{path}, line 1: expected a list, found an empty file; give one"
    message = f"{path}, line 1: expected 'name number', found an empty file; give a list"
    assert refusal(read_lines, path, "a list", "'name number'") == message


def test_a_binary_file_is_refusal(file):
    for content, byte in ((b"ab\xff\xfe\x00", 2), (b"ab\x00", 2), (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 0)):
        path, says = file(content), f"byte {byte}: expected text, found binary data; give a list"
        assert refusal(read_lines, path, "a list") == f"{path}, {says}"


@pytest.mark.parametrize(
    ("encoding", "says"),
    [
        ("utf-16", "hand.txt is in UTF-16; save it as UTF-8"),
        ("utf-16-be", "hand.txt is in UTF-16; save it as UTF-8"),
        ("utf-16-le", "hand.txt is in UTF-16; save it as UTF-8"),
        ("utf-32", "hand.txt is in UTF-32; save it as UTF-8"),
        (
            "latin-1",
            "byte 8: expected a character in UTF-8, found one of Latin-1 or another encoding; save it as UTF-8",
        ),
        ("cp1252", "byte 8: expected a character in UTF-8, found one of Latin-1 or another encoding; save it as UTF-8"),
    ],
)
@pytest.mark.parametrize("read", [read_lines, read_json])
def test_another_encoding_is_named(file, read, encoding, says):
    path = file('{"1": "Z\u00fcrich"}\n'.encode(encoding))
    assert refusal(read, path, "a list").endswith(says)


def test_what_editors_put_around_a_text_is_left_out(file):
    for content in (b"\xef\xbb\xbf[1]\r\n\x1a", b"[1]\n\x1a\x1a\n", b"[1]\x1a"):
        assert read_json(file(content), "") == [1]
        assert [(line.number, line.text) for line in read_lines(file(content), "a list")] == [(1, "[1]")]
    assert decode_text(b"a\n\n", "", "") == "a\n\n" and decode_text(b"a\x1ab", "", "") == "a\x1ab"


@pytest.mark.parametrize(
    "content", ["1 2\n3 4\nEOF", "1 2\n3 4\n\nEof;;\n\x1a", "sep=;\n1 2\n;;\n3 4\n , \n", '"sep=,"\n1 2\n3 4']
)
def test_rows_that_say_nothing_are_left_out(file, content):
    assert [line.text for line in read_lines(file(content.encode()), "a list")] == ["1 2", "3 4"]


def test_the_end_alone_is_an_empty_file(file):
    assert "found an empty file" in refusal(read_lines, file(b"EOF\n"), "a list")
    assert read_lines(file(b"\n;;\nEOF\n"), "a list", least=0) == []


@pytest.mark.parametrize(
    ("text", "count", "fields"),
    [
        ("a,b,c", None, ["a", "b", "c"]),
        ("a;b;c", None, ["a", "b", "c"]),
        ("a\tb\tc", None, ["a", "b", "c"]),
        ("a, b ,c,,", None, ["a", "b", "c"]),
        ("a,,c,,", 4, ["a", "", "c", ""]),
        ('"a;b", "c,d",', 2, ["a;b", "c,d"]),
        ("0,5;1,25;2", None, ["0,5", "1,25", "2"]),
        ("1,5;2,5;3,5", 3, ["1,5", "2,5", "3,5"]),
        ("1,A;B,2", 3, ["1", "A;B", "2"]),
        ("x", 1, ["x"]),
    ],
)
def test_fields_are_between_commas_semicolons_or_tabs(text, count, fields):
    assert Line(Path(), 1, text).separated(count) == fields


@pytest.mark.parametrize(
    "text", ["1 2.5 x", "1,2.5,x", "1;2.5;x;;", "1;2,5;x", "1, 2.5, x,", "1\t2.5\tx", "1 ; 2.5 ; x", "1\t2,5\tx"]
)
def test_words_are_between_spaces_commas_or_semicolons(text):
    line = Line(Path(), 1, text)
    assert line.fields(("n", "x", "name"), line.words()).keys() == {"n", "x", "name"}
    first, second, third = line.words()
    assert (line.whole("n", first), line.real("x", second), third) == (1, 2.5, "x")


def test_a_comma_between_words_is_no_separator():
    """Half of such a line would be read as other numbers than it means."""
    line = Line(Path(), 1, "0,65 0,95 depot")
    assert "found '0,65'" in refusal(line.real, "x", line.words()[0])


def test_a_missing_file_stays_an_operating_system_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_lines(tmp_path / "none.txt", "a list")


def test_a_line_without_end_is_refusal(file):
    path = file(b"short\n" + b"x" * 131_072 + b"\n" + b"y" * 131_073)
    assert refusal(read_lines, path, "a list") == f"{path}, line 3: expected at most 131072 characters; give a list"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no file without end here")
def test_a_file_without_end_is_refusal(tmp_path):
    (tmp_path / "endless.txt").symlink_to("/dev/zero")
    assert refusal(read_lines, tmp_path / "endless.txt", "a list").endswith("endless.txt is a device; give a file")


def test_a_file_that_takes_long_is_refused_before_its_lines_are_read(file):
    path = file(b"1\n" * 100_001)
    assert refusal(read_lines, path, "a list") == f"{path} has more than 100000 lines; give a smaller file"
    path = file(b"1\n" * 100_000)
    assert len(read_lines(path, "a list")) == 100_000
    os.truncate(path, 2**40)
    assert refusal(read_lines, path, "a list") == f"{path} is larger than 8.39 MB; give a smaller file"


def test_an_error_names_file_line_expectation_and_remedy():
    assert str(LINE.error("a word")) == "hand.txt, line 7: expected a word; correct it"
    assert refusal(LINE.expect, False, "a word", "add one") == "hand.txt, line 7: expected a word; add one"
    assert LINE.expect(True, "a word") is None


def test_fields_are_between_commas_or_given():
    assert Line(Path(), 1, '"x, y",2').fields(("name", "count")) == {"name": "x, y", "count": "2"}
    assert LINE.fields(("name",), ["x"]) == {"name": "x"}
    remedy = "add or remove what is wrong"
    assert (
        refusal(LINE.fields, ("p", "q", "r")) == f"hand.txt, line 7: expected the 3 fields 'p q r', found 2; {remedy}"
    )
    message = f"hand.txt, line 7: expected the 1 numbers 'p', found 2; {remedy}"
    assert refusal(LINE.fields, ("p",), ["1", "2"], subject="numbers") == message
    assert "correct the quotes" in refusal(Line(Path(), 1, '"x').fields, ("p",))


@pytest.mark.parametrize(
    ("word", "value"),
    [("1.5", 1.5), ("-2", -2.0), ("1e3", 1000.0), ("-999999999999", -1e12 + 1), ("1.5D+02", 150), ("-2d-1", -0.2)],
)
def test_numbers_are_read(word, value):
    assert LINE.real("x", word) == value
    assert LINE.exact("x", word) == Decimal(str(value)) and LINE.is_number(word)


@pytest.mark.parametrize("word", ["", "x", "nan", "inf", "-inf", "1e12", "-1e300", "1,5"])
def test_what_is_no_usable_number_is_refusal(word):
    assert refusal(LINE.real, "x", word) == (
        f"hand.txt, line 7: expected a number below 1000000000000 for x, found {word!r}; correct it"
    )


def test_long_words_are_cut_in_messages():
    assert f"found '{'x' * 20}';" in refusal(LINE.real, "x", "x" * 50)


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
def test_what_is_no_whole_number_in_range_is_refusal(word, bounds, wanted):
    assert refusal(LINE.whole, "n", word, **bounds) == (
        f"hand.txt, line 7: expected {wanted} for n, found {word!r}; correct it"
    )


def test_whole_numbers_are_read():
    found = [LINE.whole("n", "3"), LINE.whole("n", "-4.0", below=10), LINE.whole("n", "1e3", minimum=1000)]
    assert found == [3, -4, 1000] and all(type(number) is int for number in found)


def test_a_table_has_its_columns_and_each_line_all_of_them(file):
    for content in (b"name,Cost,note\na,1,\nb,2,x\n", b"NAME;COST;NOTE;\na;1\t;;\nb;2;x;\nEOF"):
        path = file(content)
        rows = [(line.number, row["name"], row["Cost"]) for line, row in read_table(path, "costs", ("Cost", "name"))]
        assert rows == [(2, "a", "1"), (3, "b", "2")]
    path = file(b"name,cost,note\n")
    assert refusal(read_table, path, "costs", ("price",)).startswith(f"{path}, line 1: expected columns price")
    short = read_table(file(b"name,cost\na\n"), "costs", ("cost",))
    assert "line 2: expected the 2 fields 'name cost', found 1" in refusal(list, short)
