"""Bad `.gc` files beside this one, each with the whole text of its errors in a `.txt`."""

from pathlib import Path

import pytest

from gradc.errors import GradcErrors
from gradc.frontends.gc import parse

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.gc"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_messages(file: Path, request: pytest.FixtureRequest) -> None:
    with pytest.raises(GradcErrors) as caught:
        parse(file.read_text(encoding="utf-8"), file.name, folder=FOLDER)
    found = f"{caught.value}\n"
    expected = file.with_suffix(".txt")
    if request.config.getoption("--update-golden"):
        expected.write_text(found, encoding="utf-8")
    assert found == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_errors_are_whole(file: Path) -> None:
    """Every error has a place, a code and one line of message; none comes twice."""
    with pytest.raises(GradcErrors) as caught:
        parse(file.read_text(encoding="utf-8"), file.name, folder=FOLDER)
    errors = caught.value.errors
    for error in errors:
        assert error.location is not None
        assert error.location.source.name == file.name
        assert "\n" not in error.message
        assert error.code not in ("error", "internal")
    places = [
        (e.location.line, e.location.column, e.code) for e in errors if e.location
    ]
    assert places == sorted(places)
    assert len(set(places)) == len(places)


def test_each_file_has_its_text() -> None:
    assert {f.stem for f in FILES} == {f.stem for f in FOLDER.glob("*.txt")}
