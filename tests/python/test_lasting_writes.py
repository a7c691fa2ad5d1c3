"""State that a model changes beyond one call: each backend names it in a warning, and refuses to write a file whose
results would differ. The caller's model, globals and arguments do not change."""

import contextvars
import itertools
import warnings

import pytest
import torch
import whence

BACKENDS = ["native", "native-export", "torch-dynamo", "torch-torchscript"]
NATIVE = BACKENDS[:2]
X = torch.tensor([1.0, 2.0, 3.0])

BY_NAME = {}


class Holder:
    def __init__(self):
        self.t, self.times = torch.zeros(3), 0


class Slotted:
    __slots__ = ("t",)

    def __init__(self):
        self.t = torch.zeros(3)


class Stateful(torch.nn.Module):
    """Has every kind of state; ``change`` changes some of it and returns the result."""

    def __init__(self, change):
        super().__init__()
        self.change = change
        self.register_buffer("b", torch.zeros(3))
        self.p = torch.nn.Parameter(torch.zeros(3), requires_grad=False)
        self.register_buffer("rows", torch.zeros(2, 3))
        self.row = self.rows[1]
        self.c, self.grown = [torch.zeros(3), torch.zeros(3)], torch.zeros(1)
        self.h, self.slotted, self.n, self.none = Holder(), Slotted(), 0, None
        self.sub = torch.nn.Module()
        self.sub.cache = {"k": torch.zeros(3)}

    def forward(self, x):
        return self.change(self, x)


def assign(target, value):
    """Returns a function that assigns ``value`` to ``target``; uses exec, because a lambda cannot assign."""
    namespace = {"torch": torch}
    exec(f"def change(s, x):\n    {target} = {value}\n    return {target} * x + 0", namespace)
    return namespace["change"]


REASSIGNED = {
    "b": assign("s.b", "s.b + x"), "c[1]": assign("s.c[1]", "s.c[1] + x"), "h.t": assign("s.h.t", "s.h.t + x"),
    "n": assign("s.n", "s.n + 1"), "h.times": assign("s.h.times", "s.h.times + 2"),
    "none": assign("s.none", "x + 1"),
    "sub.cache['k']": assign("s.sub.cache['k']", "s.sub.cache['k'] + x"), "slotted.t": assign("s.slotted.t", "x + 1"),
    "c[2]": lambda s, x: (s.c.append(x + 1), x * 2)[1],
    "grown": lambda s, x: (setattr(s, "grown", torch.cat([s.grown, x])), x * 2)[1],
}

IN_PLACE = {
    "b": lambda s, x: s.b.add_(x) + 0, "p": lambda s, x: s.p.add_(x) + 0,
    "c[1]": lambda s, x: s.c[1].add_(x) + 0, "h.t": lambda s, x: s.h.t.add_(x) + 0,
    "sub.cache['k']": lambda s, x: s.sub.cache["k"].add_(x) + 0,
}

HIDDEN_WRITES = {
    "data of a buffer": lambda s, x: (s.b.data.add_(x), s.b + 0)[1],
    "data of a parameter": lambda s, x: (s.p.data.mul_(1).add_(x), s.p + 0)[1],
    "data, set": lambda s, x: (setattr(s.b, "data", s.b.data + x), s.b + 0)[1],
    "view": lambda s, x: (s.row.add_(x), s.rows.sum(0))[1],
}


def export_with_warnings(model, args=(X,), **options):
    """Returns the program and the messages of E0308."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = whence.export(model.eval(), args, **options)
    return program, [str(warning.message) for warning in caught if "E0308" in str(warning.message)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", REASSIGNED)
def test_reassigned_state_is_named(name, backend):
    program, messages = export_with_warnings(Stateful(REASSIGNED[name]), backend=backend)
    assert len(messages) == 1 and f"'{name}'" in messages[0], messages
    if backend in NATIVE:
        torch.testing.assert_close(program(X)[0], Stateful(REASSIGNED[name])(X))


@pytest.mark.parametrize("backend", [*NATIVE, "torch-torchscript"])  # torch-dynamo fails for some of these
@pytest.mark.parametrize("name", IN_PLACE)
def test_state_written_in_place_is_named(name, backend):
    program, messages = export_with_warnings(Stateful(IN_PLACE[name]), backend=backend)
    assert len(messages) == 1 and f"'{name}'" in messages[0], messages
    if backend in NATIVE:
        torch.testing.assert_close(program(X)[0], X)
    else:
        assert torch.equal(program(X)[0], X) or "differ from the model's" in messages[0]


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("how", HIDDEN_WRITES)
def test_write_hidden_from_the_tracer_is_refused(how, backend, tmp_path):
    model = Stateful(HIDDEN_WRITES[how])
    with pytest.raises(whence.WhenceError) as refused:
        whence.export(model.eval(), (X,), tmp_path / "m.onnx", backend=backend)
    assert refused.value.code == "E0303" and "/tmp/whence-" not in str(refused.value), refused.value
    assert not list(tmp_path.iterdir()) and not model.b.any() and not model.p.any() and not model.rows.any()


def test_write_dropped_from_a_saved_trace_is_in_the_file():
    """A saved and loaded trace lacks the write, so torch.export captures the model instead."""
    def change(s, x):
        s.c[0][1:] = x[1:]
        return s.c[0] + x

    program, messages = export_with_warnings(Stateful(change))
    assert program.backend == "native-export" and len(messages) == 1 and "'c[0]'" in messages[0]
    torch.testing.assert_close(program(X)[0], torch.tensor([1.0, 4.0, 6.0]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", [lambda s, x: s.b * x, lambda s, x: s.b.clone().add_(x),
                                    lambda s, x: (setattr(s.h, "t", s.h.t.clone()), s.h.t + x)[1]],
                         ids=["read", "clone", "equal"])
def test_unchanged_state_gives_no_warning(change, backend):
    assert export_with_warnings(Stateful(change), backend=backend)[1] == []


class OnItsClass(torch.nn.Module):
    times, latest, total, cache = 0, torch.zeros(3), torch.zeros(3), {}

    def __init__(self, change):
        super().__init__()
        self.change = change

    def forward(self, x):
        return self.change(self, x) + 0


class Inherits(OnItsClass):
    pass


class Unused:
    """A run creates an object of this class, but does not change the class."""

    limit, tensor = 4, torch.zeros(3)


def on_class(name, value):
    return lambda s, x: (setattr(type(s), name, value(s, x)), x * 2)[1]


ON_CLASSES = {
    "Inherits.times": on_class("times", lambda s, x: s.times + 1),
    "Inherits.latest": on_class("latest", lambda s, x: s.latest + x),
    "Inherits.new": on_class("new", lambda s, x: x + 1),
    "OnItsClass.total": lambda s, x: s.total.add_(x),
    "OnItsClass.cache['k']": lambda s, x: (s.cache.update(k=s.cache.get("k", 0) + x), s.cache["k"])[1],
    "object": lambda s, x: (setattr(s, "object", Unused()), x)[1],
}


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("name", ON_CLASSES)
def test_state_of_classes_is_named(name, backend):
    program, messages = export_with_warnings(Inherits(ON_CLASSES[name]), backend=backend)
    if name == "object":
        assert not messages
    else:
        assert len(messages) == 1 and f"'{name}'" in messages[0], messages
        assert messages[0].count("'") == f"'{name}'".count("'"), messages
    assert program.verify().ok


NUMBER = contextvars.ContextVar("NUMBER", default=0)


def next_number():
    NUMBER.set(NUMBER.get() + 1)
    return NUMBER.get()


def assign_global(s, x):
    BY_NAME["last"] = BY_NAME["last"] + x
    return BY_NAME["last"] + 0


class Registry:
    last = torch.zeros(3)


def register(s, x):
    Registry.last = Registry.last + x
    return Registry.last + 0


UNKNOWN_STATE = {
    "iterator": lambda s, x: x * next(s.numbers), "context variable": lambda s, x: x * next_number(),
    "generator": lambda s, x: x + next(s.running), "global": assign_global, "class of another object": register,
}


def running_total():
    total = torch.zeros(3)
    while True:
        total = total + 1
        yield total


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", UNKNOWN_STATE)
def test_unknown_state_gives_a_warning(kind, backend):
    model = Stateful(UNKNOWN_STATE[kind])
    model.numbers, model.running = itertools.count(1), running_total()
    BY_NAME["last"] = Registry.last = torch.zeros(3)
    _, messages = export_with_warnings(model, backend=backend)
    assert len(messages) == 1 and "results change from call to call" in messages[0], messages
    assert "iterator" in messages[0], messages


TOTAL = contextvars.ContextVar("TOTAL")


def next_total(s, x):
    TOTAL.set(TOTAL.get() + x)
    return TOTAL.get() * 1


@pytest.mark.parametrize("backend", ["native-export", "torch-dynamo"])
def test_tensor_without_data_left_by_torch_export(backend):
    """Exports cannot find the tensor: the file is written but not verified, and the next export explains why."""
    TOTAL.set(torch.zeros(3))
    model = Stateful(next_total)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whence.export(model.eval(), X, backend=backend, verify=True)
    messages = [str(warning.message) for warning in caught if warning.category is whence.WhenceWarning]
    assert len(messages) == 2 and "E0308" in messages[0] and "is not verified: E0207" in messages[1], messages
    for again in BACKENDS:
        with pytest.raises(whence.WhenceError, match="a tensor without data") as refused:
            whence.export(model, X, backend=again)
        assert refused.value.code == "E0207"
    TOTAL.set(torch.zeros(3))
    whence.export(model, X)


@pytest.mark.parametrize("backend", NATIVE)
def test_random_numbers_are_not_state(backend):
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(3, 3), torch.nn.Dropout(0.1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whence.export(model.train(), (X,), backend=backend, training=torch.onnx.TrainingMode.TRAINING)
    assert not [warning for warning in caught if "E0308" in str(warning.message)]


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x, y):
        self.total += x
        y.add_(1)
        return self.total * y


@pytest.mark.parametrize("backend", ["native", "torch-torchscript"])
def test_state_of_a_scripted_model_is_named(backend):
    messages = export_with_warnings(torch.jit.script(Counts()), (X, X.clone()), backend=backend)[1]
    assert any("'total'" in message for message in messages)
    assert sum("its input 'y'" in message for message in messages) == 1
    with pytest.raises(whence.WhenceError, match="'x' and 'y' share memory"):
        whence.export(torch.jit.script(Counts()), (X, X), backend=backend)


@pytest.mark.parametrize("backend", ["native-export", "torch-dynamo"])
def test_state_of_an_exported_program_is_named(backend):
    program = torch.export.export(Counts(), (X, X.clone()))
    with pytest.warns(whence.WhenceWarning, match="E0308") as warned:
        whence.export(program, backend=backend)
    messages = [str(warning.message) for warning in warned if "E0308" in str(warning.message)]
    assert len(messages) == 2 and "writes to 'total'" in messages[0] and "its input 'y'" in messages[1]


class BranchesOnCapture(torch.nn.Module):
    """Like transformers' attention, which uses a mask only in a capture."""

    def forward(self, x):
        captured = torch.jit.is_tracing() or torch.compiler.is_exporting()
        return x.cumsum(0) if captured else x.sum(0, keepdim=True).expand(x.shape)


@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_different_results_in_a_capture_give_a_warning(backend):
    with pytest.warns(whence.WhenceWarning, match="E0303.*on the example itself"):
        whence.export(BranchesOnCapture(), (torch.rand(3, 4),), backend=backend)
    random = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).train()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whence.export(random, (torch.rand(3, 4),), backend=backend, training=torch.onnx.TrainingMode.TRAINING)
    assert not [warning for warning in caught if "E0303" in str(warning.message)]


class Doubles(torch.nn.Module):
    """Returns a number that Python counted, which a trace contains as a constant."""

    def forward(self, x):
        count = 0
        while bool(x.abs().max() < 10):
            x, count = x * 2, count + 1
        return x, count


def test_number_in_the_results_is_no_different_result():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = whence.export(Doubles(), (torch.ones(3, 4),), backend="native")
    assert not [warning for warning in caught if "on the example itself" in str(warning.message)]
    assert program(torch.ones(3, 4))[1] == 4


# ---- arguments ------------------------------------------------------------------------------------------------------


class Writes(torch.nn.Module):
    def forward(self, x, y):
        x.add_(1)
        return x + 2 * y["a"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("second", [lambda t: t, lambda t: t.view(4), lambda t: t[:]], ids=["same", "view", "slice"])
def test_writes_to_arguments_that_share_memory_are_refused(second, backend):
    t = torch.ones(4)
    with pytest.raises(whence.WhenceError, match="'x' and 'y_a' share memory") as refused:
        whence.export(Writes(), (t, {"a": second(t)}), backend=backend)
    assert refused.value.code == "E0303" and torch.equal(t, torch.ones(4))


@pytest.mark.parametrize("backend", BACKENDS)
def test_disjoint_arguments_in_one_storage(backend):
    t = torch.ones(8)
    program, messages = export_with_warnings(Writes(), (t[:4], {"a": t[4:]}), backend=backend, verify=True)
    assert program.verification.ok and len(messages) == 1 and "its input 'x'" in messages[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_tensor_passed_twice_is_two_inputs(backend):
    class Reads(torch.nn.Module):
        def forward(self, x, y):
            return x - 2 * y

    t = torch.rand(4)
    program, messages = export_with_warnings(Reads(), (t, t), backend=backend, verify=True)
    a, b = torch.rand(4), torch.rand(4)
    torch.testing.assert_close(program(a, b)[0], a - 2 * b)
    assert program.verification.ok and messages == []


@pytest.mark.parametrize("backend", NATIVE)
def test_module_as_argument_is_unchanged(backend):
    class Applies(torch.nn.Module):
        def forward(self, x, norm):
            return norm(x) + norm.running_mean * 0

    norm = torch.nn.BatchNorm1d(4).train()
    program, messages = export_with_warnings(Applies(), (torch.rand(3, 4), norm), backend=backend, verify=True)
    assert program.verification.ok and not norm.running_mean.any() and norm.num_batches_tracked == 0
    for name in "norm.running_mean", "norm.running_var", "norm.num_batches_tracked":
        assert any(f"'{name}'" in message for message in messages), messages


def test_verify_keeps_the_shared_memory_of_arguments():
    program = whence.export(Writes(), (torch.ones(4), {"a": torch.ones(4)}))
    t = torch.ones(4)
    assert not program.verify((t, {"a": t})).ok
    assert program.verify((t, {"a": t.clone()})).ok


@pytest.mark.parametrize("backend", BACKENDS)
def test_input_that_is_written_to_is_named(backend):
    class Moves(torch.nn.Module):
        def forward(self, x, state, count):
            state["h"].add_(x)
            count.add_(1)
            return x * count, state["h"]

    args = (X, {"h": torch.zeros(3)}, torch.zeros(1))
    _, messages = export_with_warnings(Moves(), args, backend=backend, input_names=["x", "h", "step"])
    assert len(messages) == 1 and "its input 'step'" in messages[0]  # under the file's name; 'h' is an output
