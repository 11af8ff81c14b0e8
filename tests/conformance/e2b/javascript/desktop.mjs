// The desktop: a screen that is looked at, clicked, typed on and streamed.
import assert from "node:assert/strict";
import { Sandbox } from "@e2b/desktop";
import { API_URL, check, finish, learn, until, withSandbox } from "./support.mjs";

learn("Sandbox", Sandbox);

const isPng = (bytes) => Buffer.from(bytes).subarray(1, 4).toString() === "PNG";

await withSandbox(async (desktop) => {
  learn("VNCServer", desktop.stream);
  await check("Sandbox.create(resolution, dpi, display), Sandbox.getScreenSize: as asked for", async () => {
    assert.deepEqual(await desktop.getScreenSize(), { width: 1280, height: 720 });
  });
  await check("Sandbox.waitAndVerify: polls a command", async () => {
    assert.equal(await desktop.waitAndVerify("echo yes", (result) => result.stdout === "yes\n"), true);
    assert.equal(await desktop.waitAndVerify("false", () => true, 1, 0.5), false);
  });
  await check("Sandbox.screenshot(format): a picture of the screen", async () => {
    assert.ok(isPng(await desktop.screenshot()));
    assert.ok(isPng(await desktop.screenshot("bytes")));
    assert.ok(isPng(await (await desktop.screenshot("blob")).arrayBuffer()));
    const pieces = [];
    for await (const piece of await desktop.screenshot("stream")) {
      pieces.push(piece);
    }
    assert.ok(isPng(Buffer.concat(pieces)));
  });
  await check("Sandbox.moveMouse, Sandbox.getCursorPosition: where it is", async () => {
    await desktop.moveMouse(300, 200);
    assert.deepEqual(await desktop.getCursorPosition(), { x: 300, y: 200 });
  });
  await check("Sandbox.leftClick, Sandbox.doubleClick, Sandbox.rightClick, Sandbox.middleClick, Sandbox.scroll, Sandbox.mousePress, Sandbox.mouseRelease, Sandbox.drag: of the mouse", async () => {
    await desktop.leftClick(640, 300);
    await desktop.doubleClick(640, 300);
    await desktop.rightClick(640, 300);
    await desktop.press("escape");
    await desktop.middleClick(640, 300);
    await desktop.press("escape");
    await desktop.scroll("down", 2);
    await desktop.mousePress("left");
    await desktop.mouseRelease("left");
    await desktop.drag([600, 300], [620, 310]);
    assert.deepEqual(await desktop.getCursorPosition(), { x: 620, y: 310 });
  });
  let window;
  await check("Sandbox.open, Sandbox.getApplicationWindows, Sandbox.getWindowTitle: a file in its program", async () => {
    await desktop.files.write("/home/user/letter.txt", "dear\n");
    await desktop.open("/home/user/letter.txt");
    [window] = await until(async () => {
      const found = await desktop.getApplicationWindows("mousepad").catch(() => []);
      return found.length > 0 && found;
    }, "a window of mousepad");
    await until(async () => (await desktop.getWindowTitle(window)).includes("letter.txt"), "its title");
  });
  await check("Sandbox.write(chunkSize, delayInMs), Sandbox.press, Sandbox.getCurrentWindowId, Sandbox.wait: into the window with the focus", async () => {
    await desktop.commands.run(`xdotool windowactivate --sync ${window}`);
    assert.match(await desktop.getCurrentWindowId(), /^\d+$/);
    await desktop.press(["ctrl", "end"]);
    await desktop.write("it's typed here, $HOME", { chunkSize: 10, delayInMs: 5 });
    await desktop.press("enter");
    await desktop.wait(100);
    await desktop.press(["ctrl", "s"]);
    await until(async () => (await desktop.files.read("/home/user/letter.txt")).includes("it's typed here, $HOME\n"),
                "the file has what was typed");
  });
  await check("Sandbox.launch: a program by the name of its entry", async () => {
    await desktop.launch("xfce4-terminal");
    await until(async () => (await desktop.getApplicationWindows("xfce4-terminal").catch(() => [])).length > 0,
                "a window of the terminal");
  });
  await check("Sandbox.launch: the browser shows a page", async () => {
    await desktop.files.write("/home/user/page.html", "<title>Seen by us</title>hello");
    await desktop.launch("google-chrome", "file:///home/user/page.html");
    await until(async () => {
      const windows = await desktop.getApplicationWindows("chromium").catch(() => []);
      const titles = await Promise.all(windows.map((each) => desktop.getWindowTitle(each).catch(() => "")));
      return titles.some((title) => title.includes("Seen by us"));
    }, "a window of the browser with the page", 60);
  });
  await check("VNCServer.start(vncPort, port, requireAuth, windowId), VNCServer.getAuthKey, VNCServer.getUrl(autoConnect, viewOnly, resize, authKey), VNCServer.stop: streamed", async () => {
    // Other ports than these do not work: the package starts its proxy at 6080 whatever it is told.
    await desktop.stream.start({ vncPort: 5900, port: 6080, requireAuth: true, windowId: window });
    const authKey = desktop.stream.getAuthKey();
    assert.match(authKey, /^[A-Za-z0-9]{8,}$/);
    const url = desktop.stream.getUrl({ authKey, viewOnly: true, autoConnect: true, resize: "scale" });
    assert.match(url, new RegExp(`^https://6080-${desktop.sandboxId}\\..*/vnc.html\\?.*password=${authKey}`));
    const page = await fetch(`${API_URL}/vnc.html`, {
      headers: { "E2b-Sandbox-Id": desktop.sandboxId, "E2b-Sandbox-Port": "6080" } });
    assert.equal(page.status, 200);
    assert.match(await page.text(), /noVNC/);
    const running = await desktop.commands.run("ss -ltn");
    assert.match(running.stdout, /:5900\b/);
    await assert.rejects(desktop.stream.start());
    await desktop.stream.stop();
    await until(async () => !(await desktop.commands.run("ss -ltn")).stdout.includes(":5900"), "it has stopped");
  });
}, { template: "desktop", of: Sandbox, resolution: [1280, 720], dpi: 96, display: ":0" });
finish();
