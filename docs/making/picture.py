"""README's picture, who sees what under masked sums: `python docs/making/picture.py` writes docs/assets/who_sees_what.svg.

One file for light and dark: it goes by what the reader's system prefers. Nothing in it is from elsewhere.
"""

from html import escape
from pathlib import Path

FILE = Path(__file__).parents[1] / "assets" / "who_sees_what.svg"
WIDTH, HEIGHT = 680, 472
STYLE = """
    svg { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
    .page { fill: #ffffff; stroke: #d5dbe1; }
    .box { fill: #f4f6f8; stroke: #b9c2cb; }
    .server { fill: #eaf4f3; stroke: #0f766e; }
    text { fill: #1f2933; font-size: 15px; }
    .head { font-weight: 600; font-size: 17px; }
    .quiet { fill: #5a6672; font-size: 14px; }
    .good { fill: #0f766e; }
    .bad { fill: #b42318; }
    .line { stroke: #0f766e; stroke-width: 2; fill: none; }
    .thin { stroke: #8794a1; stroke-width: 1.5; fill: none; stroke-dasharray: 5 4; }
    .tip { fill: #0f766e; }
    .dot { fill: #8794a1; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #161b22; stroke: #30363d; }
      .box { fill: #1f262e; stroke: #3d4752; }
      .server { fill: #12302e; stroke: #2dd4bf; }
      text { fill: #e6edf3; }
      .quiet { fill: #9aa7b4; }
      .good { fill: #5eead4; }
      .bad { fill: #ff9b8f; }
      .line { stroke: #2dd4bf; }
      .tip { fill: #2dd4bf; }
      .thin { stroke: #7d8996; }
    }"""


def drawn() -> str:
    """The picture, SVG."""
    title = "Who sees what: clients keep data and updates, the server sees sums and noisy similarities, a log has every answer"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        f"  <title>{escape(title)}</title>",
        f"  <style>{STYLE}\n  </style>",
        _box("page", 1, 1, WIDTH - 2, HEIGHT - 2, 10),
        *_clients(),
        *_arrows(),
        *_server(),
        *_log(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(kind: str, x: float, y: float, width: float, height: float, round_: float = 8) -> str:
    return f'  <rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{round_}"/>'


def _text(words: str, x: float, y: float, kind: str = "", anchor: str = "start") -> str:
    of = f' class="{kind}"' if kind else ""
    return f'  <text{of} x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def _clients() -> list[str]:
    parts = [_text("Clients", 24, 36, "head"), _text("each sees its own, and its group's model", 24, 58, "quiet")]
    for k, (name, y) in enumerate((("hospital 0", 76), ("hospital 1", 138), ("hospital n", 224))):
        if k == 2:
            parts += [f'  <circle class="dot" cx="124" cy="{y - 24 + 7 * j}" r="2"/>' for j in range(3)]
        parts += [_box("box", 24, y, 200, 52), _text(name, 38, y + 22), _text("keeps data and update", 38, y + 42, "quiet")]
    return parts


def _arrows() -> list[str]:
    parts = []
    for words, y in (("masked update", 112), ("secret sketch", 172)):
        parts += [f'  <path class="line" d="M236 {y} H392"/>', f'  <path class="tip" d="M402 {y} l-12 -6 v12 z"/>']
        parts.append(_text(words, 314, y - 10, "", "middle"))
    parts += ['  <path class="line" d="M404 248 H246"/>', '  <path class="tip" d="M236 248 l12 -6 v12 z"/>']
    parts.append(_text("a model a group", 320, 238, "", "middle"))
    return parts


def _server() -> list[str]:
    x, lines = 432, ("sums over at least", "floor (3) clients", "noisy similarities", "of what differs")
    parts = [_text("Server", 414, 36, "head"), _text("finds groups; it sees", 414, 58, "quiet")]
    parts.append(_box("server", 414, 76, 242, 200))
    for k, words in enumerate(lines):
        y = 106 + 24 * k
        parts += [*([_text("✓", x, y, "good")] if k % 2 == 0 else []), _text(words, x + 24, y)]
    parts += [_text("✗", x, 216, "bad"), _text("a client's update", x + 24, 216)]
    parts += [_text("✗", x, 242, "bad"), _text("who chose which model", x + 24, 242)]
    return parts


def _log() -> list[str]:
    y = 318
    return [
        '  <path class="thin" d="M535 276 V318"/>',
        _box("box", 24, y, 632, 110),
        _text("Disclosure log", 40, y + 28, "head"),
        _text("every answer: what, how much, to whom, about whom", 186, y + 28, "quiet"),
        _text("report", 40, y + 60, "good"),
        _text("says what was told", 40, y + 82, "quiet"),
        _text("audit", 226, y + 60, "good"),
        _text("attacks what each party saw", 226, y + 82, "quiet"),
        _text("ledger", 474, y + 60, "good"),
        _text("counts epsilon, if any", 474, y + 82, "quiet"),
        _text("Masked(), with a server that follows the protocol and colludes with nobody.", 24, y + 136, "quiet"),
    ]


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(drawn())
