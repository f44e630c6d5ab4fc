"""Virtual desktops: programs, pixels, windows, files and input.

The rooms above use `desktop.Desktop` (live) and `recorded.RecordedDesktop` (from a cassette), which look the same.
"""
