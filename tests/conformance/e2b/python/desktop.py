"""The desktop: a screen that is looked at, clicked, typed on and streamed."""
import re

import e2b_desktop
from e2b_desktop import Sandbox
from support import MODULES, SYNC, NotApplicable, case, check, raises, run_cases, sandbox_of, until

MODULES.insert(0, e2b_desktop)


@case("Sandbox.create(resolution, dpi, display), Sandbox.get_screen_size: as asked for")
async def _(desktop):
    assert desktop.get_screen_size() == (1280, 720)


@case("Sandbox.screenshot(format): a picture of the screen")
async def _(desktop):
    assert desktop.screenshot()[1:4] == b"PNG"
    assert b"".join(desktop.screenshot(format="stream"))[1:4] == b"PNG"


@case("Sandbox.move_mouse, Sandbox.get_cursor_position, Sandbox.left_click(x, y), Sandbox.double_click(x, y), "
      "Sandbox.right_click(x, y), Sandbox.middle_click(x, y), Sandbox.scroll(direction, amount), "
      "Sandbox.mouse_press(button), Sandbox.mouse_release(button), Sandbox.drag: of the mouse")
async def _(desktop):
    desktop.move_mouse(300, 200)
    assert desktop.get_cursor_position() == (300, 200)
    desktop.left_click(640, 300)
    desktop.double_click(640, 300)
    desktop.right_click(640, 300)
    desktop.press("escape")
    desktop.middle_click(640, 300)
    desktop.press("escape")
    desktop.scroll("up", 2)
    desktop.mouse_press("left")
    desktop.mouse_release("left")
    desktop.drag((600, 300), (620, 310))
    assert desktop.get_cursor_position() == (620, 310)


def windows(desktop, application):
    try:
        return [each for each in desktop.get_application_windows(application) if each]
    except e2b_desktop.CommandExitException:
        return []


@case("Sandbox.open, Sandbox.launch(uri), Sandbox.get_application_windows, Sandbox.get_window_title, "
      "Sandbox.get_current_window_id, Sandbox.write(chunk_size, delay_in_ms), Sandbox.press, Sandbox.wait: "
      "text into a window")
async def _(desktop):
    desktop.files.write("/home/user/letter.txt", "dear\n")
    desktop.open("/home/user/letter.txt")
    window = until(lambda: windows(desktop, "mousepad"), "a window of mousepad")[0]
    until(lambda: "letter.txt" in desktop.get_window_title(window), "its title")
    desktop.commands.run(f"xdotool windowactivate --sync {window}")
    assert desktop.get_current_window_id().isdigit()
    desktop.press(["ctrl", "end"])
    desktop.write("typed here", chunk_size=5, delay_in_ms=5)
    desktop.wait(100)
    desktop.press(["ctrl", "s"])
    until(lambda: "typed here" in desktop.files.read("/home/user/letter.txt"), "the text is saved")
    desktop.launch("xfce4-terminal")
    until(lambda: windows(desktop, "xfce4-terminal"), "a window of the terminal")


@case("Sandbox.stream: started, told where, stopped")
async def _(desktop):
    desktop.stream.start(require_auth=True)
    key = desktop.stream.get_auth_key()
    url = desktop.stream.get_url(auth_key=key, view_only=True)
    assert re.match(rf"https://6080-{desktop.sandbox_id}\..*/vnc\.html\?.*password={key}", url), url
    page = desktop.commands.run("curl -s http://127.0.0.1:6080/vnc.html").stdout
    assert "noVNC" in page, page[:200]
    with raises(RuntimeError, "already running"):
        desktop.stream.start()
    desktop.stream.stop()


async def only_synchronous():
    raise NotApplicable("the package has no asynchronous class")


async def main():
    if not SYNC:
        await check("Sandbox.create: asynchronous", only_synchronous)
        return
    async with sandbox_of("desktop", of=Sandbox, resolution=(1280, 720), dpi=96,
                          display=":0") as desktop:
        await run_cases(desktop)
