"""The main job: recorded once, replayed on a live desktop and from the recording alone."""

from __future__ import annotations

import re
from typing import Any

from pytest_cua.cassette.format import load


def test_what_is_recorded_replays_live_and_offline(project: Any) -> None:
    project.record().assert_outcomes(passed=1)
    assert project.lines()[0]["model_endpoint"] == "scripted"
    result = project.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["cua: replay, live desktop"])
    result = project.run("--cua-mode=offline")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["cua: offline, *application not exercised"])


def test_recording_again_gives_the_same_actions_in_the_same_order(project: Any) -> None:
    project.record().assert_outcomes(passed=1)
    first = project.actions()
    assert [name for name, _ in first] == ["screenshot", "key", "type", "key", "screenshot"]
    project.record().assert_outcomes(passed=1)
    assert project.actions() == first


def test_a_replay_does_the_recorded_actions_in_the_recorded_order(project: Any) -> None:
    project.record().assert_outcomes(passed=1)
    project.write(
        test_note=(project.path / "test_note.py").read_text()
        + '    print("did", [(a.name, a.input) for step in cua.run.steps for a in step.actions])\n'
    )
    result = project.run("-s")
    result.assert_outcomes(passed=1)
    assert f"did {project.actions()}" in result.stdout.str()


def test_ten_replays_have_one_outcome(project: Any) -> None:
    project.record().assert_outcomes(passed=1)
    for _ in range(10):
        project.run().assert_outcomes(passed=1)


def test_a_broken_application_fails_the_replay_although_its_screen_is_the_same(project: Any) -> None:
    project.record().assert_outcomes(passed=1)
    # The editor saves, and something undoes it: no pixel shows that.
    text = (project.path / "test_note.py").read_text()
    undo = '    cua.desktop.file("note.txt").write("one\\n")\n    expect'
    project.write(test_note=text.replace("    expect", undo, 1))
    result = project.run("-o", "cua_timeout=300")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ExpectFailure: expected file 'note.txt' to have the text*", "*-two*"])


def test_another_screen_is_drift_and_names_the_box_and_the_pictures(project: Any) -> None:
    project.record().assert_outcomes(passed=1)
    project.write(test_note=(project.path / "test_note.py").read_text().replace('"one\\n")', '"ONE\\n")', 1))
    result = project.run("-o", "cua_drift_timeout=500")
    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    assert "ScreenDrift: step 1 'Add the line {line} and save', turn 1, screenshot:" in output
    assert re.search(r"\d+x\d+ at \(\d+, \d+\)", output)
    assert "of 64 bits in the worst tile" in output
    assert "pytest --cua-mode=record test_note.py::test_note" in output
    for name in ("expected", "actual", "diff"):
        assert (project.path / f"cua-artifacts/test_note/test_note/drift-{name}.png").exists()


def test_a_value_is_typed_and_only_its_name_is_recorded(project: Any) -> None:
    project.record().assert_outcomes(passed=1)
    assert ("type", {"text": "{line}\n"}) in project.actions()
    typed = [line for line in project.lines() if line["type"] in ("turn", "action")]
    assert "two" not in str(typed)


def test_an_edited_sentence_is_a_mismatch_with_both_texts_and_the_command(project: Any) -> None:
    project.record().assert_outcomes(passed=1)
    project.write(test_note=(project.path / "test_note.py").read_text().replace("and save", "and store it"))
    for mode in ("replay", "offline"):
        result = project.run(f"--cua-mode={mode}")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(
            [
                "*CassetteMismatch: *the request is not the recorded one*",
                "*recorded: *and save*",
                "*now: *and store it*",
                "*pytest --cua-mode=record test_note.py::test_note*",
            ]
        )


def test_no_except_hides_a_mismatch(project: Any) -> None:
    project.record().assert_outcomes(passed=1)
    text = (project.path / "test_note.py").read_text().replace("and save", "and store it")
    hidden = text.replace("    cua.do(", "    try: cua.do(").replace(
        'params={"line": "two"})', 'params={"line": "two"})\n    except BaseException: pass'
    )
    project.write(test_note=hidden.replace("    expect(", "    return\n    expect("))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*CassetteMismatch*"])


def test_a_step_too_many_and_a_step_too_few_are_mismatches(project: Any) -> None:
    project.record().assert_outcomes(passed=1)
    text = (project.path / "test_note.py").read_text()
    project.write(test_note=text.replace("    expect", '    cua.do("Add the line x")\n    expect', 1))
    result = project.run("--cua-mode=offline")
    result.stdout.fnmatch_lines(["*CassetteMismatch*step 2 'Add the line x' was not recorded*"])
    project.write(test_note=re.sub(r"    cua\.do.*\n", "", text))
    result = project.run("--cua-mode=offline")
    result.stdout.fnmatch_lines(["*CassetteMismatch*the recording goes on with 'Add the line {line} and save'*"])


def test_a_failed_recording_is_kept_aside_and_can_be_adopted(project: Any, monkeypatch: Any) -> None:
    good = (project.path / "test_note.py").read_text()
    project.write(test_note=good.replace("one\\ntwo\\n", "wrong\\n"))
    result = project.record("-o", "cua_timeout=200")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*pytest-cua accept test_note.py::test_note*"])
    assert not (project.folder() / "cassette.jsonl").exists()
    from pytest_cua.cli import main

    monkeypatch.chdir(project.path)
    assert main(["accept", "test_note.py::test_note"]) == 0
    project.write(test_note=good)
    # what the test looks at while it fails was kept too, so only the sentence's replay is asked for here
    project.run().assert_outcomes(passed=1)


def test_a_failed_recording_never_replaces_a_good_one(project: Any) -> None:
    project.record().assert_outcomes(passed=1)
    before = (project.folder() / "cassette.jsonl").read_bytes()
    good = (project.path / "test_note.py").read_text()
    project.write(test_note=good.replace("one\\ntwo\\n", "wrong\\n"))
    project.record("-o", "cua_timeout=200").assert_outcomes(failed=1)
    assert (project.folder() / "cassette.jsonl").read_bytes() == before
    project.write(test_note=good)
    project.run().assert_outcomes(passed=1)


def test_record_missing_records_once_and_replays_then(project: Any) -> None:
    result = project.run("--cua-record")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["recorded *test_note (*kB of text, *kB of new pictures)"])
    project.script("SCRIPT = []  # nobody answers any more\n")
    result = project.run("--cua-record")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("recorded *")


def test_the_conversation_is_stored_once_with_and_without_threads(project: Any) -> None:
    for threads in ("on", "off"):
        project.record("-o", f"cua_threads={threads}").assert_outcomes(passed=1)
        turns = [line for line in project.lines() if line["type"] == "turn"]
        assert [len(t["request"]["new"]) for t in turns] == ([1, 1, 1] if threads == "on" else [1, 2, 2])
        text = (project.folder() / "cassette.jsonl").read_text()
        assert text.count("Add the line {line} and save") == 2  # the step's line, and its first request
        project.run().assert_outcomes(passed=1)
        project.run("--cua-mode=offline").assert_outcomes(passed=1)


def test_every_picture_a_line_names_is_stored_once(project: Any) -> None:
    project.record().assert_outcomes(passed=1)
    cassette = load(project.folder())
    stored = [path.stem for path in (project.path / "cassettes").rglob("*.webp")]
    assert sorted(stored) == sorted(cassette.screens())


def test_a_worse_recording_does_not_take_the_place_of_a_kept_one(project: Any, monkeypatch: Any) -> None:
    good = (project.path / "test_note.py").read_text()
    project.write(test_note=good.replace("one\\ntwo\\n", "wrong\\n"))
    project.record("-o", "cua_timeout=200").assert_outcomes(failed=1)
    kept = (project.folder() / ".failed" / "cassette.jsonl").read_bytes()
    project.script(
        'def stop(request):\n    yield use("screenshot")\n    yield error(400, "invalid", "no")\nSCRIPT = {"": stop}\n'
    )
    project.record().assert_outcomes(failed=1)
    assert (project.folder() / ".failed" / "cassette.jsonl").read_bytes() == kept
    assert (project.folder() / ".failed-unfinished" / "cassette.jsonl").exists()
    from pytest_cua.cli import main

    monkeypatch.chdir(project.path)
    assert main(["accept", "test_note.py::test_note"]) == 0


def test_an_older_kept_recording_does_not_take_the_place_of_a_newer_cassette(
    project: Any, monkeypatch: Any, capsys: Any
) -> None:
    good = (project.path / "test_note.py").read_text()
    project.write(test_note=good.replace("one\\ntwo\\n", "wrong\\n"))
    project.record("-o", "cua_timeout=200").assert_outcomes(failed=1)
    project.write(test_note=good)
    project.record().assert_outcomes(passed=1)
    newer = (project.folder() / "cassette.jsonl").read_bytes()
    from pytest_cua.cli import main

    monkeypatch.chdir(project.path)
    assert main(["accept", "test_note.py::test_note"]) == 1
    assert "is older than the cassette" in capsys.readouterr().err
    assert (project.folder() / "cassette.jsonl").read_bytes() == newer


def test_a_thread_that_looks_while_a_step_is_recorded_does_no_harm(project: Any) -> None:
    text = (project.path / "test_note.py").read_text()
    spy = (
        "    import threading\n    stop = threading.Event()\n"
        "    def spy():\n        while not stop.wait(0.02): cua.desktop.screenshot()\n"
        "    thread = threading.Thread(target=spy); thread.start()\n"
    )
    text = text.replace("    cua.do(", spy + "    cua.do(").replace(
        "    expect(", "    stop.set(); thread.join()\n    expect("
    )
    project.write(test_note=text)
    project.record().assert_outcomes(passed=1)
    load(project.folder())


def test_a_screen_that_is_taken_back_before_claude_called_the_step_done_is_drift(project: Any) -> None:
    # The recorded pause before finish_step is what a replay holds the last screen for.
    project.script(
        "import time\n"
        "def slow(request):\n"
        '    yield use("screenshot")\n'
        '    yield turn(use("key", text="ctrl+End"), use("type", text="{line}\\n"), use("key", text="ctrl+s"), '
        'use("screenshot"))\n'
        "    time.sleep(1.2)  # Claude thinks\n"
        '    yield finish("It is there.")\n'
        'SCRIPT = {"Add the line": slow}\n'
    )
    project.record().assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)
    text = (project.path / "test_note.py").read_text()
    closer = (
        '    cua.desktop.launch("sh", "-c", "until grep -q two note.txt; do sleep 0.05; done; sleep 0.5; kill -9 -1", '
        "wait=False)\n"
    )
    project.write(test_note=text.replace("    cua.do(", closer + "    cua.do("))
    result = project.run("-o", "cua_drift_timeout=2000")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ScreenDrift: *before the step was called done*"])


def test_commands_in_hints_work_where_pytest_was_started(project: Any, monkeypatch: Any, capsys: Any) -> None:
    (project.path / "pyproject.toml").write_text('[tool.pytest]\ncua_cassette_dir = "recs"\n')
    (project.path / "sub").mkdir()
    (project.path / "test_note.py").rename(project.path / "sub" / "test_note.py")
    monkeypatch.chdir(project.path / "sub")
    result = project.run()
    result.stdout.fnmatch_lines(["*record it: pytest --cua-record test_note.py::test_note*"])
    project.record().assert_outcomes(passed=1)
    from pytest_cua.cli import main

    assert main(["show", "test_note.py::test_note"]) == 0
    assert "Add the line {line} and save" in capsys.readouterr().out
