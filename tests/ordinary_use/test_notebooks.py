"""A notebook: one loop that never ends, cells that are interrupted and run again."""

import pytest

pytestmark = [pytest.mark.browser]

# Cells are run as IPython runs them: compiled with top-level await, on one loop, a Ctrl-C between.
_NOTEBOOK = """
import ast, asyncio, inspect, os, signal, threading, time, psutil

loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
names = {"__name__": "__main__"}

def cell(source):
    code = compile(source, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(code, names)
    if inspect.iscoroutine(made):
        task = loop.create_task(made)
        loop.add_signal_handler(signal.SIGINT, task.cancel)  # As ipykernel does.
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        finally:
            loop.remove_signal_handler(signal.SIGINT)

def interrupted(source, ready):
    # `ready` says when the cell is in the middle of its work.
    def interrupt():
        while not ready():
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        cell(source)
    except KeyboardInterrupt:
        return
    raise AssertionError("the cell was not interrupted")

children = lambda: len(psutil.Process().children())
"""


def test_cells_with_top_level_await(run_script):
    run_script(
        _NOTEBOOK
        + """
cell("import webtraj")
interrupted("env = webtraj.make('miniwob/click-test'); await env.reset()", lambda: children())
cell("env = webtraj.make('miniwob/click-test'); timestep = await env.reset()")
interrupted("running = True\\nwhile True: await env.reset()", lambda: "running" in names)
cell("timestep = await env.reset()")
cell("timestep = await env.step(await env.cheat()); await env.close()")
assert names["timestep"].reward == 1.0
"""
    )
