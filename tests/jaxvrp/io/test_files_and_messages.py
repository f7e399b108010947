"""Files that are whole or not there, the folder of published data, and remedies for misspelt names."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.published.data import VARIABLE, data_folder
from jaxvrp.io.messages import cut, escaped, few, in_words, nearest, printable, shown, shown_cost
from jaxvrp.io.whole_files import write_csv, write_json, write_text, write_whole


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_once_the_new_one_is_complete(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write(partial):
        partial.write_text("new")
        assert path.read_text() == "old" and partial.parent == tmp_path

    write_whole(str(path), write)
    assert path.read_text() == "new" and names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write(partial):
        partial.write_text("half")
        raise error

    with pytest.raises(type(error)):
        write_whole(path, write)
    assert path.read_text() == "old" and names(tmp_path) == ["a.txt"]


def test_a_failure_before_the_first_byte_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        write_whole(tmp_path / "a.txt", lambda partial: 1 / 0)
    assert names(tmp_path) == []


def test_a_missing_folder_is_an_operating_system_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "away" / "a.txt", "text")


def test_an_error_of_the_system_names_the_file(tmp_path):
    """Opening a file names it; writing to one does not, and nobody knows the name of the partial one."""
    path = tmp_path / "a.txt"

    def full(partial):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*/a\.txt'$"):
        write_whole(path, full)
    with pytest.raises(FileNotFoundError) as missing:
        write_whole(tmp_path / "away" / "a.txt", lambda partial: partial.write_text("new"))
    assert missing.value.filename == str(tmp_path / "away" / "a.txt")
    with pytest.raises(FileNotFoundError) as missing:
        write_whole(path, lambda partial: (tmp_path / "source").read_text())
    assert missing.value.filename == str(tmp_path / "source")
    with pytest.raises(OSError, match="cannot write mode"):
        write_whole(path, lambda partial: (_ for _ in ()).throw(OSError("cannot write mode")))


def test_text_and_json_are_utf8(tmp_path):
    write_text(tmp_path / "a.txt", "né\n")
    write_json(tmp_path / "a.json", {"né": [1, None]})
    assert (tmp_path / "a.txt").read_bytes() == "né\n".encode()
    written = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(written) == {"né": [1, None]} and written.startswith("{\n  ") and written.endswith("}\n")


def test_a_table_holds_no_formulas(tmp_path):
    """Numbers stay numbers, also where they are texts."""
    cells = ["=1+1", "+49 30", "-A1", "@x", "\t=1", "a=1", "-1.5", "+2", -3, None, 'b,"c', "'q"]
    write_csv(tmp_path / "a.csv", [["id"], *([cell] for cell in cells)])
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        (head, *rows) = (row[0] if row else "" for row in csv.reader(file))
    shown = ["'=1+1", "'+49 30", "'-A1", "'@x", "'\t=1", "a=1", "-1.5", "+2", "-3", "", 'b,"c', "'q"]
    assert [head, *rows] == ["id", *shown]


def test_the_folder_of_published_data(monkeypatch):
    monkeypatch.setenv(VARIABLE, "somewhere")
    assert data_folder() == Path("somewhere")
    monkeypatch.delenv(VARIABLE)
    assert data_folder() == Path("../shared/data")


MANY = [f"{letter}_parameter" for letter in "abcdefghijklmnop"]


@pytest.mark.parametrize(
    ("name", "known", "says"),
    [
        ("sped", ["speed", "load"], "did you mean 'speed'"),
        ("num_node", ["num_nodes", "num_modes"], "did you mean 'num_nodes'"),
        ("zzz", ["speed", "load"], "known: load, speed"),
        ("zzz", [], "known: "),
        ("zzz", MANY, f"none of 16 is similar; some of them: {', '.join(MANY[:5])}"),
    ],
)
def test_a_misspelt_name_is_answered_by_the_nearest(name, known, says):
    assert nearest(name, known) == says


def test_of_many_names_only_a_few_are_told():
    assert nearest("parallel", MANY).count(",") < 5


SHOWN = {
    "short": (3, "3"),
    "lines": ("two\nlines", r"'two\nlines'"),
    "an array": (np.eye(2), "array([[1., 0.], [0., 1.]])"),
    "just short enough": ("x" * 38, "'" + "x" * 38 + "'"),
    "too long": ("x" * 39, "'" + "x" * 35 + " ..."),
    "401 digits": (10**400, "1" + "0" * 35 + " ..."),
    "more digits than Python writes": (10**5000, "<int, too large to be written>"),
    "these in a list": ([10**5000], "<list, too large to be written>"),
}


@pytest.mark.parametrize(("value", "text"), SHOWN.values(), ids=SHOWN)
def test_a_value_in_a_message_is_one_short_line(value, text):
    assert shown(value) == text


@pytest.mark.parametrize(
    ("text", "shows"),
    [
        ("Żabka\u3000東 🚚\n", "Żabka 東 🚚"),
        ("\x1b[31m\x00\x7f\x9b", r"\x1b[31m\x00\x7f\x9b"),
        ("\u202eevil\u2066\u200b\udcff", r"\u202eevil\u2066\u200b\udcff"),
        ("a" * 9, "a" * 9),
        ("begin" + "a" * 99 + "end", "begi ... end"),
        ("\x1b" * 99, "\\x1b ... x1b"),
    ],
)
def test_foreign_text_is_printable_and_short(text, shows):
    assert printable(text, 12 if len(text) > 50 else 99) == shows
    assert escaped(shows) == shows


def test_of_many_names_a_few_are_listed():
    assert few(["a", "b\x1b", 3]) == r"a, b\x1b, 3"
    assert few(map(str, range(20_000))).endswith("13, 14, 19985 more")
    assert len(few(["\x00" * 5000] * 20)) < 600 and len(shown("\u202e" * 5000)) <= 40 and len(cut("\x1b" * 90)) == 32


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_999, "1 MB"), (25_263_000_000, "25.3 GB"), (8e19, "80 EB")],
)
def test_bytes_in_words(count, words):
    assert in_words(count) == words


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        *((260.144, "260.14"), (9.75, "9.750"), (0.18064, "0.1806"), (-0.0018064, "-0.001806"), (-0.0, "0.00")),
        *((10.0, "10.00"), (99999.994, "99999.99"), (-336011.53, "-336011.5"), (17949688.9, "17949689")),
        *((np.inf, "inf"), (np.nan, "nan")),
    ],
)
def test_a_cost_has_four_to_seven_digits_in_any_unit(cost, text):
    assert shown_cost(cost) == text
