"""A small window that writes down what reaches it: one line of JSON an event, in `events.jsonl` in HOME.

Run by the tests with Debian's own Python, which has Tk: `probe.py [--moving MILLISECONDS] [--title TITLE]`.
"""

from __future__ import annotations

import argparse
import json
import tkinter
from pathlib import Path
from typing import Any

EVENTS = Path.home() / "events.jsonl"


def write(kind: str, **fields: Any) -> None:
    with EVENTS.open("a") as file:
        file.write(json.dumps({"kind": kind, **fields}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--title", default="probe")
    parser.add_argument("--moving", type=int, default=0, help="milliseconds for which it draws; -1: for ever")
    options = parser.parse_args()

    root = tkinter.Tk()
    root.title(options.title)
    root.geometry("400x300+100+100")
    canvas = tkinter.Canvas(root, background="white", highlightthickness=0)
    canvas.pack(fill="both", expand=True)

    for count, name in enumerate(("Button", "Double-Button", "Triple-Button"), 1):
        root.bind(
            f"<{name}>",
            lambda e, c=count: write("press", button=e.num, count=c, x=e.x_root, y=e.y_root, state=e.state),
        )
    root.bind("<ButtonRelease>", lambda e: write("release", button=e.num, x=e.x_root, y=e.y_root))
    root.bind("<B1-Motion>", lambda e: write("drag", x=e.x_root, y=e.y_root))
    root.bind("<KeyPress>", lambda e: write("key", name=e.keysym, char=e.char, state=e.state))
    root.bind("<KeyRelease>", lambda e: write("key-up", name=e.keysym))

    box = canvas.create_rectangle(0, 0, 40, 40, fill="black")
    steps = {"left": options.moving // 20 if options.moving >= 0 else -1, "x": 0}

    def move() -> None:
        if steps["left"] == 0:
            write("stopped")
            return
        steps["left"] -= 1
        steps["x"] = (steps["x"] + 5) % 300
        canvas.coords(box, steps["x"], 0, steps["x"] + 40, 40)
        root.after(20, move)

    if options.moving:
        root.after(20, move)
    root.mainloop()


if __name__ == "__main__":
    main()
