"""What register, unregister, make and info promise."""

import importlib
import subprocess
import sys
import textwrap

import dm_env
import pytest

import webtraj
from rows import each
from webtraj import errors, registry

pytestmark = pytest.mark.usefixtures("empty_registry")


class Counter:
    """An environment that counts to three, as old as the hills: it never heard of recording."""

    def __init__(self, tasks, color="red"):
        self.tasks = tasks
        self.color = color
        self._count = 0

    async def reset(self):
        self._count = 0
        return dm_env.restart(0)

    async def step(self, action):
        self._count += 1
        if self._count == 3:
            return dm_env.termination(1.0, self._count)
        return dm_env.transition(0.0, self._count)

    async def close(self):
        pass


def make_counter(tasks, color="red"):
    """Counts to three.

    And no further.
    """
    return Counter(tasks, color)


def test_info_says_what_is_known_without_making():
    made = []
    webtraj.register("count", lambda tasks: made.append(tasks), tasks="abc", description="Counts.")
    assert webtraj.info("count") == registry.PresetInfo(
        name="count", description="Counts.", num_tasks=3
    )
    assert made == []


def test_decorator_registers_and_returns_the_factory_unchanged():
    decorated = webtraj.register("count", tasks=["a"])(make_counter)
    assert decorated is make_counter
    assert webtraj.register("again", make_counter) is make_counter
    assert webtraj.make("count").tasks == ("a",)


@pytest.mark.parametrize(
    ("selector", "tasks"),
    [("count", "abcd"), ("count:2", "c"), ("count:1:3", "bc"), ("count@1/2", "cd")],
)
def test_factory_gets_the_selected_tasks(selector, tasks):
    webtraj.register("count", make_counter, tasks="abcd")
    assert webtraj.make(selector).tasks == tuple(tasks)


@each("name", ["", "a b", "a:b", "a@b", "p\n", "é", None, 5])
def test_malformed_name_is_refused(name):
    with pytest.raises(errors.InvalidInputError, match="Invalid preset name"):
        webtraj.register(name, make_counter)


def test_name_taken_is_refused_and_the_first_stays():
    webtraj.register("count", make_counter, description="first")
    with pytest.raises(errors.InvalidInputError, match=r"already registered.*unregister"):
        webtraj.register("count", make_counter)
    assert webtraj.info("count").description == "first"


@each("factory", [5, "no colon", "a:b:c", ":b", "a:", "a b:c", ""])
def test_factory_must_be_callable_or_importable(factory):
    with pytest.raises(errors.InvalidInputError, match="must be callable or a string") as caught:
        webtraj.register("count", factory)
    assert repr(factory) in str(caught.value)


def test_unregistered_preset_is_unknown_and_its_name_free():
    webtraj.register("count", make_counter)
    webtraj.unregister("count")
    for use in (webtraj.info, webtraj.make, webtraj.unregister):
        with pytest.raises(errors.UnknownPresetError, match=r"'count'.*--import"):
            use("count")
    webtraj.register("count", make_counter)


def test_unknown_name_comes_with_the_nearest_ones():
    for name in ("miniwob/click-test", "miniwob/click-test-2", "shop/buy"):
        webtraj.register(name, make_counter)
    with pytest.raises(errors.UnknownPresetError) as caught:
        webtraj.make("miniwob/clicktest:0")
    assert "'miniwob/clicktest'" in str(caught.value)
    assert "'miniwob/click-test'" in str(caught.value)
    assert "shop/buy" not in str(caught.value)
    assert "webtraj presets" in str(caught.value)


def test_selection_error_names_the_whole_selector():
    webtraj.register("count", make_counter, tasks="abc")
    with pytest.raises(errors.InvalidSelectorError, match=r"'count:7'.*from 0 to 2"):
        webtraj.make("count:7")


@pytest.mark.parametrize(
    ("arguments", "names_these"),
    [
        ({"colour": "blue"}, ["'count'", "colour='blue'", "Did you mean 'color'?"]),
        ({"tasks": ("a",)}, ["'count'", "no option 'tasks'", "got tasks="]),
    ],
)
def test_argument_that_the_factory_does_not_take_is_a_clear_error(arguments, names_these):
    webtraj.register("count", make_counter, tasks="abc")
    with pytest.raises(errors.InvalidInputError) as caught:
        webtraj.make("count", **arguments)
    for words in names_these:
        assert words in str(caught.value)


def test_type_error_from_inside_the_factory_stays_itself():
    webtraj.register("broken", lambda tasks: len(5), tasks="abc")
    with pytest.raises(TypeError, match="has no len"):
        webtraj.make("broken")


async def test_make_with_collector_wraps_and_the_factory_never_sees_it():
    seen = []

    def factory(tasks, **kwargs):
        seen.append(kwargs)
        return Counter(tasks)

    webtraj.register("count", factory, tasks="abc")
    collector = webtraj.MemoryTrajectoryCollector()
    environment = webtraj.make("count:0", trajectory_collector=collector, color="blue")
    assert seen == [{"color": "blue"}]
    assert isinstance(environment, webtraj.TrajectoryCollectingEnvironment)
    timestep = await environment.reset()
    while not timestep.last():
        timestep = await environment.step("next")
    await environment.close()
    (trajectory,) = collector.trajectories
    assert trajectory.num_steps == 3
    assert trajectory.terminated


def test_select_splits_into_one_selection_a_task():
    webtraj.register("count", make_counter, tasks="abcd")
    webtraj.register("plain", Counter)
    parts = registry.select("count:1:3").split()
    assert [part.tasks for part in parts] == [("b",), ("c",)]
    assert [part.make().tasks for part in parts] == [("b",), ("c",)]
    assert registry.select("plain").split() == (registry.select("plain"),)


def names():
    """Return the names of all presets except those of webtraj's own packages and examples."""
    ours = ("apps/", "widgets/", "pixels/")
    return [one.name for one in webtraj.info() if not one.name.startswith(ours)]


class TestPlugins:
    """Presets that installed packages offer."""

    @pytest.fixture
    def offer(self, monkeypatch, tmp_path):
        """Installs a package, as far as metadata and import go, that offers presets."""
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(registry, "_plugins_loaded", False)

        def install(name, source, entry_point=None):
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
            metadata = tmp_path / f"{name}-1.0.dist-info"
            metadata.mkdir()
            (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
            (metadata / "entry_points.txt").write_text(
                f"[{registry.ENTRY_POINT_GROUP}]\n{name} = {entry_point or name + ':presets'}\n"
            )
            importlib.invalidate_caches()
            monkeypatch.delitem(sys.modules, name, raising=False)

        return install

    def test_plugin_is_loaded_when_the_registry_is_first_read(self, offer):
        offer(
            "plugin_one",
            """
            import webtraj
            def presets():
                webtraj.register("one/count", lambda: "made", description="From a package.")
            """,
        )
        webtraj.register("mine", make_counter)
        assert "plugin_one" not in sys.modules
        assert names() == ["mine", "one/count"]
        assert webtraj.make("one/count") == "made"

    @pytest.mark.parametrize(
        ("source", "entry_point", "reason"),
        [
            ("import no_such_module_anywhere", None, "ModuleNotFoundError"),
            ("x = 1", None, "AttributeError"),
            ("presets = 5", None, "TypeError"),
            ("def presets(): raise SystemError('sick')", None, "SystemError: sick"),
            ("", "no_such_module_anywhere:presets", "ModuleNotFoundError"),
            (
                "import webtraj\ndef presets(): webtraj.register('mine', print)",
                None,
                "InvalidInputError: The preset 'mine' is already registered",
            ),
        ],
    )
    def test_broken_plugin_is_a_warning_that_names_it(self, offer, source, entry_point, reason):
        offer("plugin_broken", source, entry_point)
        webtraj.register("mine", make_counter)
        with pytest.warns(registry.PresetPluginWarning) as caught:
            assert names() == ["mine"]
        (warning,) = caught
        assert "plugin_broken" in str(warning.message)
        assert reason in str(warning.message)
        assert names() == ["mine"]


def test_shipped_presets_cost_nothing_heavy():
    program = textwrap.dedent(
        """
        import sys, webtraj
        presets = {preset.name: preset for preset in webtraj.info()}
        assert presets["miniwob/click-test"].num_tasks == 1
        assert presets["miniwob/all"].num_tasks == 125
        assert presets["miniwob/all"].uses_browser
        assert 10 <= presets["miniwob/solved"].num_tasks <= 125
        heavy = {"playwright", "gymnasium", "miniwob", "selenium"} & set(sys.modules)
        assert not heavy, heavy
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
