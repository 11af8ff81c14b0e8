"""Figures as data: every kind of chart that the clients know."""
import e2b_code_interpreter
from e2b_code_interpreter import AsyncSandbox, charts
from support import MODULES, case, run_cases, sandbox_of

MODULES.insert(0, e2b_code_interpreter)


async def chart_of(sandbox, code):
    execution = await sandbox.run_code(f"import matplotlib.pyplot as plt\n{code}\nplt.show()")
    assert execution.error is None, execution.error
    return next(each.chart for each in execution.results if each.png)


@case("Sandbox.run_code: lines and points")
async def _(sandbox):
    chart = await chart_of(sandbox, "plt.plot([1, 2], [3, 4], label='a'); plt.xlabel('Time (s)')")
    assert isinstance(chart, charts.LineChart), chart
    assert (chart.x_label, chart.x_unit, chart.x_scale) == ("Time (s)", "s", "linear")
    assert [(each.label, each.points) for each in chart.elements] == [("a", [(1, 3), (2, 4)])]
    chart = await chart_of(sandbox, "plt.scatter([1, 2], [3, 4]); plt.title('T')")
    assert isinstance(chart, charts.ScatterChart) and chart.title == "T"


@case("Sandbox.run_code: bars, pies, boxes")
async def _(sandbox):
    chart = await chart_of(sandbox, "plt.bar(['a'], [3], label='g')")
    assert isinstance(chart, charts.BarChart)
    assert [(each.label, each.group, each.value) for each in chart.elements] == [("a", "g", 3)]
    chart = await chart_of(sandbox, "plt.pie([1, 3], labels=['a', 'b'])")
    assert isinstance(chart, charts.PieChart)
    assert [(each.label, each.angle) for each in chart.elements] == [("a", 90), ("b", 270)]
    chart = await chart_of(sandbox, "plt.boxplot([[1, 2, 3, 4, 20]], labels=['a'])")
    assert isinstance(chart, charts.BoxAndWhiskerChart)
    box = chart.elements[0]
    assert (box.min, box.first_quartile, box.median, box.third_quartile, box.max, box.outliers) == (
        1, 2, 3, 4, 4, [20]), vars(box)


@case("Sandbox.run_code: several, and others")
async def _(sandbox):
    chart = await chart_of(sandbox, "_, (a, b) = plt.subplots(1, 2); a.plot([1]); b.bar(['x'], [1])")
    assert isinstance(chart, charts.SuperChart)
    assert [each.type for each in chart.elements] == ["line", "bar"]
    chart = await chart_of(sandbox, "plt.imshow([[1]])")
    assert chart.to_dict()["type"] == "unknown", chart


async def main():
    async with sandbox_of("code-interpreter-v1", of=AsyncSandbox) as sandbox:
        await run_cases(sandbox)
