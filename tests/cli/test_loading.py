from pathlib import Path

import pytest
from tests.cli.conftest import Call

from millstream.cli.loading import LoadError


@pytest.mark.parametrize(
    ("code", "lines", "error"),
    [
        (
            "x = (",
            ['  File "{}", line 1', "    x = (", "        ^"],
            "cannot load {}: SyntaxError: '(' was never closed (broken_{}.py, line 1)",
        ),
        (
            "import no_such_thing",
            ['  File "{}", line 1, in <module>', "    import no_such_thing"],
            "cannot load {}: ModuleNotFoundError: No module named 'no_such_thing'",
        ),
        (
            "raise KeyError",
            ['  File "{}", line 1, in <module>', "    raise KeyError"],
            "cannot load {}: KeyError",
        ),
        (
            "from millstream import App; App('a').stream('n').group_by_key().aggregate(0, max)",
            [
                '  File "{}", line 1, in <module>',
                "    from millstream import App; App('a').stream('n').group_by_key().aggregate(0, max)",
            ],
            "aggregate() expects a function, not 0; pass a function without arguments, for example lambda: 0",
        ),
        (
            "from millstream import App; App('a').stream('n').group_by_key().aggregate(lambda v: v, max)",
            [
                '  File "{}", line 1, in <module>',
                "    from millstream import App; App('a').stream('n').group_by_key().aggregate(lambda v: v, max)",
            ],
            "aggregate() cannot call <lambda> ({}:1): it takes 1 argument; it must take none, like lambda: 0",
        ),
    ],
    ids=["syntax", "import", "bare", "definition", "arity"],
)
def test_only_the_frames_of_the_user_are_shown(
    call: Call, tmp_path: Path, code: str, lines: list[str], error: str, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    file = tmp_path / f"broken_{name}.py"
    file.write_text(code + "\n")
    refused = call("describe", str(file))
    assert (refused.exit_code, refused.stdout) == (1, "")
    *shown, last = refused.stderr.splitlines()
    assert [line for line in shown if set(line) - set(" ^~")] == [
        line.format(file) for line in lines if set(line) - set(" ^~")
    ]
    assert last == f"error: {error.replace('{}', str(file), 1).replace('{}', name)}"


def test_debug_shows_the_full_traceback(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "broken_here.py"
    file.write_text("1 / 0\n")
    with pytest.raises(LoadError) as caught:
        call("describe", str(file), "--debug")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
