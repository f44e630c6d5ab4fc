"""Tools of a step besides the toolset: earlier versions of the computer tool, functions of the user's, bash, editor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_cua.model import ModelInfo

SINGLE = """
def add_line(request):
    assert request.tools[0]["type"] == VERSION, request.tools[0]
    yield use_tool("computer", action="screenshot")
    yield turn(
        use_tool("computer", action="key", text="ctrl+End"),
        use_tool("computer", action="type", text="{line}\\n"),
        use_tool("computer", action="key", text="ctrl+s"),
    )
    yield use_tool("computer", action="cursor_position")
    yield finish("The line is there and saved.")

SCRIPT = {"Add the line": add_line}
"""
VERSIONS = {
    "computer_20251124": "claude-opus-4-7",
    "computer_20250124": "claude-haiku-4-5",
    "computer_20241022": "claude-3-5-sonnet-20241022",
}


@pytest.mark.parametrize(("version", "model"), VERSIONS.items())
def test_an_earlier_version_of_the_computer_tool_is_recorded_and_replayed(
    project: Any, version: str, model: str
) -> None:
    project.script(f"VERSION = {version!r}\n{SINGLE}")

    result = project.record("-o", f"cua_model={model}")
    result.assert_outcomes(passed=1)
    lines = project.lines()
    assert lines[0]["tools"] == [version]
    actions = [line for line in lines if line["type"] == "action"]
    assert [line["name"] for line in actions] == ["screenshot", "key", "type", "key", "cursor_position"]
    assert all("screen" in line for line in actions[:4])  # a screenshot goes with every result
    page = (project.folder() / "steps.md").read_text()
    assert "type '{line}" in page
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)


REFUSED = """
SAID = []

def wrong(request):
    yield use_tool("computer", action="left_click", coordinate=[5, 5])
    SAID.append(request.results[-1] if hasattr(request, "results") else "")
    yield use_tool("computer", action="fly")
    yield use_tool("computer", action="key")
    yield use_tool("computer", action="wait", duration=101)
    yield use_tool("nothing", x=1)
    yield finish("Refused.")

SCRIPT = {"": wrong}
"""


def test_what_a_version_does_not_take_is_told_to_claude(project: Any) -> None:
    project.script(REFUSED)
    project.steps('cua.do("Try")\ncua.desktop.file("a").write("x")\nassert cua.desktop.file("a").read_text() == "x"')
    wanted = ["-W", "ignore:Tool 'nothing' not found", "-o", "cua_computer_tool=computer_20241022"]
    wanted += ["-o", "cua_model=claude-3-5-sonnet-20241022"]
    project.record(*wanted).assert_outcomes(passed=1)
    text = (project.folder("test_it", "test_it") / "cassette.jsonl").read_text()
    for told in (
        "coordinate is not accepted for left_click.",
        "'fly' is no action of computer_20241022: it takes key, type,",
        "text is required for key.",
        "'wait' is no action of computer_20241022",
        "Tool 'nothing' not found",
    ):
        assert told in text, told
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}", *wanted).assert_outcomes(passed=1)


FUNCTIONS = '''
from anthropic import beta_tool
from pathlib import Path

@beta_tool
def price(article: str, count: int = 1) -> str:
    """The price of some articles.

    Args:
        article: Its name.
        count: How many.
    """
    with Path("called").open("a") as file:
        file.write(f"{article}\\n")
    if article == "nothing":
        raise LookupError("no such article")
    if article == "wrong":
        assert count == 7, "only sevens"
    return f"{count * 3} euros"

@beta_tool
def later() -> str:
    """Another."""
    return "later"
'''
CALLS = """
def ask(request):
    yield [use_tool("price", article="apple", count=2), use("screenshot")]
    yield [use_tool("price", article="nothing"), use_tool("price", article="pear")]
    yield use_tool("price", article="apple", count="many")
    yield finish("6 euros")

def wrong(request):
    yield use_tool("price", article="wrong")
    yield finish("done")

SCRIPT = {"Ask": ask, "Wrong": wrong}
"""
LOOK = 'cua.desktop.file("a").write("x")\nassert cua.desktop.file("a").read_text() == "x"'


def called(project: Any) -> list[str]:
    path: Path = project.path / "called"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def with_functions(project: Any, body: str, *, mark: str = "tools=[shop.price]") -> None:
    project.write(
        shop=FUNCTIONS,
        test_it=f"import pytest, shop\n\n@pytest.mark.cua({mark})\ndef test_it(cua):\n    "
        + body.replace("\n", "\n    ")
        + "\n",
    )
    (project.path / "test_note.py").unlink(missing_ok=True)
    (project.path / "pyproject.toml").write_text('[tool.pytest]\npythonpath = ["."]\n')


def test_a_function_of_the_user_is_recorded_and_replayed(project: Any) -> None:
    project.script(CALLS)
    with_functions(project, f'assert cua.do("Ask").text == "6 euros"\n{LOOK}')
    project.record().assert_outcomes(passed=1)
    assert called(project) == ["apple", "nothing", "pear"]
    text = (project.folder("test_it", "test_it") / "cassette.jsonl").read_text()
    assert "6 euros" in text
    assert "LookupError: no such article" in text
    assert "Invalid arguments for function price" in text
    assert project.lines("test_it", "test_it")[0]["tools"] == ["computer_toolset_20260801", "price"]
    project.run().assert_outcomes(passed=1)
    assert called(project) == ["apple", "nothing", "pear"]  # on the live application it is called again
    project.run("--cua-mode=offline").assert_outcomes(passed=1)
    assert called(project) == []


def test_an_assertion_in_a_function_fails_the_test(project: Any) -> None:
    project.script(CALLS)
    with_functions(project, f'cua.do("Wrong")\n{LOOK}')
    result = project.record()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*The tool price failed: only sevens*"])


def test_the_hook_gives_tools_too_and_a_test_may_add_some(project: Any) -> None:
    hook = "\n\ndef pytest_cua_tools(item):\n    import shop\n    return [shop.price]\n"
    project.script(CALLS + hook)
    with_functions(project, f'cua.tools.append(shop.later)\ncua.do("Ask")\n{LOOK}', mark="")
    project.record().assert_outcomes(passed=1)
    assert called(project) == ["apple", "nothing", "pear"]
    text = (project.folder("test_it", "test_it") / "cassette.jsonl").read_text()
    assert '"name": "later"' in text
    project.run("--cua-mode=offline").assert_outcomes(passed=1)
    project.script(CALLS)
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the request is not the recorded one*", "*tools*"])


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("tools=[len]", "len is no tool: it is 'bash', 'editor', or a function"),
        ("tools=['bush']", "'bush' is no tool: it is one of bash, editor"),
        ("tools=[shop.price, shop.price.func]", "price is no tool"),
        ("computer_tool='computer_2030'", "it is one of auto, computer_toolset_20260801"),
    ],
)
def test_what_is_no_tool_is_told(project: Any, mark: str, message: str) -> None:
    project.script(CALLS)
    with_functions(project, f'cua.do("Ask")\n{LOOK}', mark=mark)
    result = project.record()
    assert result.ret != 0
    assert message in result.stdout.str() + result.stderr.str()


LARGE = """
def looks(request):
    for _ in range(4):
        yield use("screenshot")
    yield finish("Seen.")

SCRIPT = {"": looks}
"""


@pytest.mark.parametrize(
    ("place", "limit", "message"),
    [
        ("cassette.recorder.MAX_REQUEST", 2000, "The next request of this step would hold 1 pictures of"),
        ("tools.around.MAX_PICTURE", 3000, ""),
        ("model.UNKNOWN_MODEL", 2, "Claude has been shown 2 pictures in this step"),
    ],
)
def test_the_limits_of_the_api_are_kept(
    project: Any, monkeypatch: pytest.MonkeyPatch, place: str, limit: int, message: str
) -> None:
    value = ModelInfo(max_images=limit) if place.startswith("model.") else limit
    monkeypatch.setattr(f"pytest_cua.{place}", value)
    project.script(LARGE)
    project.steps(f'cua.do("Look")\n{LOOK}')
    result = project.record("-o", "cua_model=claude-of-tomorrow", "-o", "cua_threads=false")
    if message:
        result.assert_outcomes(failed=1)
        assert message in result.stdout.str()
        return
    result.assert_outcomes(passed=1)
    assert "image/jpeg" in (project.folder("test_it", "test_it") / "cassette.jsonl").read_text()
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}").assert_outcomes(passed=1)


PARTNERS = """
def work(request):
    yield use_tool("bash", command="cd /home/cua && x=7 && printf 'one\\ntwo\\n' > a.txt; echo $x; false")
    yield [use_tool("bash", command="echo $x $PWD"), use_tool(EDITOR, command="view", path="/home/cua/a.txt")]
    yield use_tool(EDITOR, command="str_replace", path="/home/cua/a.txt", old_str="two", new_str="three")
    yield use_tool(EDITOR, command="str_replace", path="/home/cua/a.txt", old_str="nine", new_str="ten")
    yield finish("done")

def again(request):
    yield use_tool("bash", command="echo still $x")
    yield finish("done")

SCRIPT = {"Work": work, "Again": again}
"""
USES_PARTNERS = """
cua.do("Work on it")
cua.do("Again")
assert cua.desktop.file("a.txt").read_text() == "one\\nthree\\n"
"""


@pytest.mark.parametrize(
    ("model", "editor"),
    [
        ("claude-sonnet-5-5", "str_replace_based_edit_tool"),
        ("claude-3-5-sonnet-20241022", "str_replace_editor"),
    ],
)
def test_bash_and_the_editor_go_on_from_step_to_step(project: Any, model: str, editor: str) -> None:
    project.script(f"EDITOR = {editor!r}\n{PARTNERS}")
    project.steps(USES_PARTNERS.replace("\\\\", "\\"))
    tools = ["-o", "cua_tools=bash editor", "-o", f"cua_model={model}"]
    project.record(*tools).assert_outcomes(passed=1)
    lines = project.lines("test_it", "test_it")
    assert lines[0]["tools"][1:] == ["bash", "editor"]
    texts = [line.get("text", "") for line in lines if line["type"] == "action"]
    assert texts[0].startswith("7\n")  # its status was not 0: an error, with what it wrote
    assert "status 1" in texts[0]
    assert texts[1].strip() == "7 /home/cua"
    assert "still 7" in texts[-1]
    page = (project.folder("test_it", "test_it") / "steps.md").read_text()
    assert "a.txt" in page
    for mode in ("replay", "offline"):
        project.run(f"--cua-mode={mode}", "-o", "cua_tools=bash editor").assert_outcomes(passed=1)


def test_a_command_that_fails_now_is_drift(project: Any) -> None:
    project.script(
        "def ls(request):\n    yield use_tool('bash', command='ls a.txt')\n    yield finish('seen')\nSCRIPT = {'': ls}"
    )
    body = 'cua.desktop.file({name!r}).write("x")\ncua.do("List")\nassert cua.desktop.windows() == []'
    project.steps(body.format(name="a.txt"))
    project.record("-o", "cua_tools=bash").assert_outcomes(passed=1)
    project.steps(body.format(name="b.txt"))
    result = project.run("-o", "cua_tools=bash")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ScreenDrift*bash*this worked while recording and now fails*"])
