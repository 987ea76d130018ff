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


def test_a_synchronous_environment_in_a_cell(run_script):
    run_script(
        _NOTEBOOK
        + """
cell("import webtraj; env = webtraj.as_sync(webtraj.make('miniwob/click-test'))")
cell("import asyncio; await asyncio.sleep(0); timestep = env.reset()")
interrupted("running = True\\nwhile True: env.reset()", lambda: "running" in names)
cell("env.reset(); timestep = env.step(env.cheat())")
assert names["timestep"].reward == 1.0
cell("env = webtraj.as_sync(webtraj.make('miniwob/click-test')); timestep = env.reset()")
"""  # The last one is never closed, and neither is the kernel's loop.
    )


@pytest.mark.parametrize("ready", ["children()", "'running' in names"])
def test_a_loop_that_leaves_ctrl_c_to_python(run_script, ready):
    """The interrupt breaks off whatever the loop does; the next cells work or say why not.

    It may break off one more cell: asyncio raises it again in a task that awaits the one it hit.
    """
    run_script(
        _NOTEBOOK.replace("loop.add_signal_handler(signal.SIGINT, task.cancel)", "pass")
        + f"""
cell("import webtraj; env = webtraj.make('miniwob/click-test')")
interrupted("await env.reset(); running = True\\nwhile True: await env.reset()", lambda: {ready})
try:
    cell("import asyncio; await asyncio.sleep(0.1)")
except KeyboardInterrupt:
    pass
cell('''
for _ in range(3):
    other = webtraj.make('miniwob/click-test')
    try:
        await other.reset()
        timestep = await other.step(await other.cheat())
        break
    except webtraj.errors.WebtrajError:
        pass
''')
assert names["timestep"].reward == 1.0
"""
    )
