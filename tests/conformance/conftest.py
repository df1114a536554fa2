"""Options, fixtures and the bookkeeping of reference records."""

import pathlib
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from launch import ours, reference  # noqa: E402
from lib import http, proc, record, release, stack  # noqa: E402

IMPLS = {"reference": reference, "ours": ours}


def pytest_addoption(parser):
    parser.addoption("--impl", choices=sorted(IMPLS), default="ours", help="which worker to run")
    parser.addoption(
        "--reference",
        dest="impl",
        action="store_const",
        const="reference",
        help="same as --impl reference",
    )
    parser.addoption("--keep-logs", action="store_true", help="keep the logs of passing runs too")


def pytest_configure(config):
    config.impl = IMPLS[config.getoption("impl")]
    config.impl.check()
    config.expectations = record.Expectations()
    config.records = record.Records()
    config.wheel = reference.version()
    config.addinivalue_line(
        "markers", "releases(name...): the releases that a test is about (default: r13)"
    )
    config.passed = {}
    config.failed = False
    config.folder = pathlib.Path(tempfile.mkdtemp(prefix="understudy-conformance-"))


def pytest_report_header(config):
    return [
        f"worker: {config.impl.NAME} ({config.impl.version()}); frontend: {config.wheel}",
        f"logs: {config.folder}",
    ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    setattr(item, f"report_{report.when}", report)
    if report.failed:
        item.config.failed = True
        for name, value in item.funcargs.items():
            if isinstance(value, stack.Site):
                report.sections.append((f"logs of {name} in {value.folder}", value.logs()))
    elif report.when == "call" and item.config.impl is reference:
        observed = item.funcargs["observe"].values if "observe" in item.funcargs else {}
        item.config.passed[item.nodeid] = {
            "digest": record.digest(item.path, item.config.expectations),
            "wheel": item.config.wheel,
            "observed": observed,
        }
    return report


def pytest_runtest_setup(item):
    """A test of ours counts only when the reference has passed the same body before."""
    if item.config.impl is ours:
        digest = record.digest(item.path, item.config.expectations)
        problem = item.config.records.problem(item.nodeid, digest, item.config.wheel)
        if problem:
            pytest.fail(f"unproven: {problem}", pytrace=False)


def _releases(item):
    marker = item.get_closest_marker("releases")
    return marker.args if marker else ("r13",)


def pytest_collection_modifyitems(config, items):
    other = [item for item in items if release.name() not in _releases(item)]
    config.hook.pytest_deselected(items=other)
    items[:] = [item for item in items if item not in other]
    config.collected = {item.nodeid for item in items}


def pytest_sessionfinish(session):
    config = session.config
    if config.passed:
        whole_suite = (
            config.args_source is config.ArgsSource.TESTPATHS and not config.option.keyword
        )
        config.records.update(config.passed, config.collected if whole_suite else None)
    if not config.failed and not config.getoption("keep_logs"):
        shutil.rmtree(config.folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def no_leaks():
    """At the end no process that this run started may be left."""
    yield
    left = proc.marked_processes()
    assert not left, f"left behind: {left}"


@pytest.fixture(autouse=True)
def no_open_streams():
    """A failed test must not leave streams running into the next one."""
    yield
    http.close_all()


@pytest.fixture(scope="session")
def worker_impl(request):
    """The launcher of the worker under test."""
    return request.config.impl


def _site(request, name=None, **more):
    """In a folder named after the test and its file."""
    name = (name or request.node.name).replace("/", "_").replace("[", "-").rstrip("]")
    folder = request.config.folder / f"{request.path.stem}-{name}"
    folder.mkdir(parents=True)
    return stack.Site(folder, request.config.impl, **more).start_servers()


@pytest.fixture(scope="module")
def shared_site(request):
    """Servers and a namespace for a whole test file (for tests that leave them as they were)."""
    site = _site(request, "shared")
    yield site
    site.close()


@pytest.fixture
def site(request):
    """Servers and a namespace for one test."""
    made = _site(request)
    yield made
    made.close()


@pytest.fixture
def zmq_site(request):
    """As `site`, with events over ZMQ sockets between the processes, the default of Dynamo."""
    made = _site(request, event_plane="zmq")
    yield made
    made.close()


@pytest.fixture(params=["nats", "zmq"])
def plane_site(request):
    """As `site`, once with each event plane."""
    made = _site(request, event_plane=request.param)
    yield made
    made.close()


@pytest.fixture
def file_site(request):
    """As `site`, with file discovery in place of etcd."""
    made = _site(request, discovery="file")
    yield made
    made.close()


@pytest.fixture
def expect(request):
    """expect(key): the value expected of this implementation, for what differs on purpose
    (expected/<release>.toml).
    """
    config = request.config
    return lambda key: config.expectations.value(request.path.stem, key, config.impl.NAME)


class Observer:
    """Measured facts of a test: recorded for the reference; `same` also demands them of ours."""

    def __init__(self, config, test_id):
        self.values = {}
        self._config = config
        self._id = test_id

    def __call__(self, key, value):
        self.values[key] = value

    def same(self, key, value):
        """Ours must measure what the reference measured (JSON values only)."""
        self.values[key] = value
        if self._config.impl is ours:
            was = self._config.records.observed(self._id, key)
            assert value == was, f"{key}: the reference gave {was!r}, this worker {value!r}"


@pytest.fixture
def observe(request):
    return Observer(request.config, request.node.nodeid)
