// Figures as data: every kind of chart that the clients know.
import assert from "node:assert/strict";
import { Sandbox } from "@e2b/code-interpreter";
import { check, finish, learn, withSandbox } from "./support.mjs";

learn("Sandbox", Sandbox);
const PLOT = "import matplotlib.pyplot as plt\n";

await withSandbox(async (sandbox) => {
  const chartOf = async (code) => {
    const execution = await sandbox.runCode(PLOT + code + "\nplt.show()");
    assert.equal(execution.error, undefined, JSON.stringify(execution.error));
    const { chart, png } = execution.results.find((each) => each.png);
    assert.ok(Buffer.from(png, "base64").subarray(1, 4).equals(Buffer.from("PNG")));
    return chart;
  };
  await check("Sandbox.runCode: a line chart", async () => {
    const chart = await chartOf(
        "plt.plot([1, 2, 3], [2.5, 3.5, float('nan')], label='a'); plt.plot([1, 2], [0, 1])\n"
        + "plt.title('T'); plt.xlabel('Time (s)'); plt.ylabel('Volume'); plt.yscale('symlog')");
    assert.deepEqual([chart.type, chart.title, chart.x_label, chart.x_unit, chart.y_label, chart.y_unit],
                     ["line", "T", "Time (s)", "s", "Volume", null]);
    assert.deepEqual([chart.x_scale, chart.y_scale], ["linear", "symlog"]);
    assert.equal(chart.x_ticks.length, chart.x_tick_labels.length);
    assert.deepEqual(chart.elements.map((each) => each.points),
                     [[[1, 2.5], [2, 3.5], [3, null]], [[1, 0], [2, 1]]]);
    assert.equal(chart.elements[0].label, "a");
  });
  await check("Sandbox.runCode: moments on an axis", async () => {
    const chart = await chartOf(
        "from datetime import datetime\nplt.plot([datetime(2026, 1, 1), datetime(2026, 1, 2)], [1, 2])");
    assert.equal(chart.x_scale, "datetime");
    assert.deepEqual(chart.elements[0].points[0], ["2026-01-01T00:00:00", 1]);
  });
  await check("Sandbox.runCode: a scatter chart", async () => {
    const chart = await chartOf("plt.scatter(['p', 'q'], [3, 4], label='s'); plt.scatter(['p'], [1])");
    assert.deepEqual([chart.type, chart.x_scale], ["scatter", "categorical"]);
    assert.deepEqual(chart.elements[0], { label: "s", points: [["p", 3], ["q", 4]] });
    assert.equal(chart.elements.length, 2);
  });
  await check("Sandbox.runCode: bars, upright and lying", async () => {
    const chart = await chartOf("plt.bar(['a', 'b'], [3, 4], label='one'); plt.bar(['a', 'b'], [1, 2], bottom=[3, 4], label='two')");
    assert.equal(chart.type, "bar");
    assert.deepEqual(chart.elements, [
      { label: "a", group: "one", value: 3 }, { label: "b", group: "one", value: 4 },
      { label: "a", group: "two", value: 1 }, { label: "b", group: "two", value: 2 }]);
    const lying = await chartOf("plt.barh(['a', 'b'], [3, 4])");
    assert.deepEqual(lying.elements.map((each) => [each.label, each.value]), [["a", 3], ["b", 4]]);
  });
  await check("Sandbox.runCode: a pie", async () => {
    const chart = await chartOf("plt.pie([1, 3], labels=['a', 'b'], radius=2)");
    assert.equal(chart.type, "pie");
    assert.deepEqual(chart.elements, [{ label: "a", angle: 90, radius: 2 }, { label: "b", angle: 270, radius: 2 }]);
  });
  await check("Sandbox.runCode: boxes and whiskers", async () => {
    const data = "[[1, 2, 3, 4, 20], [2, 3, 4, 5, 6]]";
    for (const options of ["", ", patch_artist=True", ", vert=False", ", notch=False, showmeans=True"]) {
      const chart = await chartOf(`plt.boxplot(${data}, labels=['a', 'b']${options})`);
      assert.equal(chart.type, "box_and_whisker", options);
      assert.deepEqual(chart.elements, [
        { label: "a", min: 1, first_quartile: 2, median: 3, third_quartile: 4, max: 4, outliers: [20] },
        { label: "b", min: 2, first_quartile: 3, median: 4, third_quartile: 5, max: 6, outliers: [] }]);
    }
  });
  await check("Sandbox.runCode: several axes are a superchart", async () => {
    const chart = await chartOf(
        "figure, (a, b) = plt.subplots(1, 2); figure.suptitle('S'); a.plot([1, 2]); b.pie([1])");
    assert.deepEqual([chart.type, chart.title], ["superchart", "S"]);
    assert.deepEqual(chart.elements.map((each) => each.type), ["line", "pie"]);
  });
  await check("Sandbox.runCode: what is no chart of these is unknown", async () => {
    const chart = await chartOf("plt.imshow([[1, 2], [3, 4]]); plt.title('picture')");
    assert.deepEqual([chart.type, chart.title, chart.elements], ["unknown", "picture", []]);
  });
}, { template: "code-interpreter-v1", of: Sandbox });
finish();
