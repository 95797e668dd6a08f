"""Colours of frames, by layer.

`gpu` keeps the hues that Intel's AI flame graphs made customary: green for hardware, aqua for
device source and kernels, orange for the operating system, pink for Python, yellow for C++, red for
C; and adds violet for framework operators, blue for launches, grey for notes. `safe` is for people
who do not tell red from green: the Okabe-Ito colours (Okabe and Ito, "Color Universal Design",
2008). Meaning never hangs on the hue alone: the layer stands in each frame's title.
"""

from __future__ import annotations

import zlib

# kind of layer: (red, green, blue) from, to; a frame's own place between them comes from its name.
GPU = {
    "run": ((200, 200, 200), (215, 215, 215)),
    "phase": ((214, 190, 150), (226, 205, 170)),
    "python": ((245, 138, 148), (255, 178, 188)),
    "framework": ((175, 140, 215), (200, 170, 235)),
    "native": ((215, 80, 70), (245, 130, 110)),
    "native_cpp": ((195, 195, 60), (225, 225, 80)),
    "os": ((220, 120, 10), (250, 150, 40)),
    "note": ((175, 175, 175), (195, 195, 195)),
    "api": ((95, 145, 220), (130, 175, 240)),
    "device": ((160, 190, 215), (180, 205, 225)),
    "gpu_source": ((70, 180, 185), (105, 210, 210)),
    "kernel": ((60, 190, 195), (95, 215, 220)),
    "instruction": ((85, 205, 85), (110, 225, 110)),
    "stall": ((60, 200, 60), (110, 250, 110)),
}
SAFE = {
    "run": ((200, 200, 200), (215, 215, 215)),
    "phase": ((220, 215, 190), (230, 225, 205)),
    "python": ((204, 121, 167), (222, 155, 190)),
    "framework": ((230, 159, 0), (245, 185, 60)),
    "native": ((213, 94, 0), (230, 130, 50)),
    "native_cpp": ((240, 228, 66), (246, 238, 120)),
    "os": ((190, 150, 120), (205, 170, 140)),
    "note": ((175, 175, 175), (195, 195, 195)),
    "api": ((0, 114, 178), (40, 140, 200)),
    "device": ((160, 190, 215), (180, 205, 225)),
    "gpu_source": ((120, 200, 240), (150, 215, 245)),
    "kernel": ((86, 180, 233), (125, 200, 240)),
    "instruction": ((0, 158, 115), (40, 180, 140)),
    "stall": ((0, 158, 115), (70, 195, 160)),
}
PALETTES = {"gpu": GPU, "safe": SAFE}


def pick_colour(kind: str, name: str, palette: str = "gpu") -> str:
    """'#rrggbb' of a frame: the same name has the same colour in every picture."""
    low, high = PALETTES[palette]["native_cpp" if kind == "native" and "::" in name else kind]
    share = (zlib.crc32(name.encode("utf-8", "replace")) % 1000) / 999
    return "#" + "".join(
        f"{round(a + (b - a) * share):02x}" for a, b in zip(low, high, strict=True)
    )


def is_dark(colour_text: str) -> bool:
    """Whether white text reads better on it: relative luminance, WCAG 2.2, below 0.18."""

    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour_text[i : i + 2], 16)) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.18
