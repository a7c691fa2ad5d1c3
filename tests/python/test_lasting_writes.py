"""What a model changes for longer than one call is warned of by every backend, with its name; a file that would give
other results than the model for that reason is refused; the caller's model, globals and arguments stay."""

import contextvars
import itertools
import warnings

import pytest
import torch
import whence

EVERY = ["native", "native-export", "torch-dynamo", "torch-torchscript"]
NATIVE = EVERY[:2]
X = torch.tensor([1.0, 2.0, 3.0])

BY_NAME = {}


class Holder:
    def __init__(self):
        self.t, self.times = torch.zeros(3), 0


class Slotted:
    __slots__ = ("t",)

    def __init__(self):
        self.t = torch.zeros(3)


class Keeps(torch.nn.Module):
    """State of every kind; ``change`` changes some of it and returns the result."""

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


def setting(target, value):
    """A change that assigns: Python's exec, as a lambda cannot."""
    namespace = {"torch": torch}
    exec(f"def change(s, x):\n    {target} = {value}\n    return {target} * x + 0", namespace)
    return namespace["change"]


SET_ANEW = {
    "b": setting("s.b", "s.b + x"), "c[1]": setting("s.c[1]", "s.c[1] + x"), "h.t": setting("s.h.t", "s.h.t + x"),
    "n": setting("s.n", "s.n + 1"), "h.times": setting("s.h.times", "s.h.times + 2"),
    "none": setting("s.none", "x + 1"),
    "sub.cache['k']": setting("s.sub.cache['k']", "s.sub.cache['k'] + x"), "slotted.t": setting("s.slotted.t", "x + 1"),
    "c[2]": lambda s, x: (s.c.append(x + 1), x * 2)[1],
    "grown": lambda s, x: (setattr(s, "grown", torch.cat([s.grown, x])), x * 2)[1],
}

IN_PLACE = {
    "b": lambda s, x: s.b.add_(x) + 0, "p": lambda s, x: s.p.add_(x) + 0,
    "c[1]": lambda s, x: s.c[1].add_(x) + 0, "h.t": lambda s, x: s.h.t.add_(x) + 0,
    "sub.cache['k']": lambda s, x: s.sub.cache["k"].add_(x) + 0,
}

UNSEEN = {
    "data of a buffer": lambda s, x: (s.b.data.add_(x), s.b + 0)[1],
    "data of a parameter": lambda s, x: (s.p.data.mul_(1).add_(x), s.p + 0)[1],
    "data, set": lambda s, x: (setattr(s.b, "data", s.b.data + x), s.b + 0)[1],
    "view": lambda s, x: (s.row.add_(x), s.rows.sum(0))[1],
}


def told(model, args=(X,), **options):
    """The program, and the messages of E0308."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = whence.export(model.eval(), args, **options)
    return program, [str(each.message) for each in caught if "E0308" in str(each.message)]


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("name", SET_ANEW)
def test_what_is_set_anew_is_named(name, backend):
    program, said = told(Keeps(SET_ANEW[name]), backend=backend)
    assert len(said) == 1 and f"'{name}'" in said[0], said
    if backend in NATIVE:
        torch.testing.assert_close(program(X)[0], Keeps(SET_ANEW[name])(X))


@pytest.mark.parametrize("backend", [*NATIVE, "torch-torchscript"])  # torch-dynamo fails for some of them
@pytest.mark.parametrize("name", IN_PLACE)
def test_what_is_written_to_is_named_once(name, backend):
    program, said = told(Keeps(IN_PLACE[name]), backend=backend)
    assert len(said) == 1 and f"'{name}'" in said[0], said
    if backend in NATIVE:
        torch.testing.assert_close(program(X)[0], X)
    else:
        assert torch.equal(program(X)[0], X) or "differ from the model's" in said[0]


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("how", UNSEEN)
def test_a_write_that_a_tracer_does_not_see_is_refused(how, backend, tmp_path):
    model = Keeps(UNSEEN[how])
    with pytest.raises(whence.WhenceError) as refused:
        whence.export(model.eval(), (X,), tmp_path / "m.onnx", backend=backend)
    assert refused.value.code == "E0303" and "/tmp/whence-" not in str(refused.value), refused.value
    assert not list(tmp_path.iterdir()) and not model.b.any() and not model.p.any() and not model.rows.any()


def test_a_write_that_libtorch_drops_is_in_the_file():
    """It is not in a trace that was saved and loaded, so torch.export reads the model."""
    def change(s, x):
        s.c[0][1:] = x[1:]
        return s.c[0] + x

    program, said = told(Keeps(change))
    assert program.backend == "native-export" and len(said) == 1 and "'c[0]'" in said[0]
    torch.testing.assert_close(program(X)[0], torch.tensor([1.0, 4.0, 6.0]))


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("change", [lambda s, x: s.b * x, lambda s, x: s.b.clone().add_(x),
                                    lambda s, x: (setattr(s.h, "t", s.h.t.clone()), s.h.t + x)[1]],
                         ids=["read", "clone", "equal"])
def test_state_that_stays_is_not_warned_of(change, backend):
    assert told(Keeps(change), backend=backend)[1] == []


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
    """Its class comes with an object that a run makes, and is not changed."""

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
def test_what_a_class_holds_is_named(name, backend):
    program, said = told(Inherits(ON_CLASSES[name]), backend=backend)
    if name == "object":
        assert not said
    else:
        assert len(said) == 1 and f"'{name}'" in said[0] and said[0].count("'") == f"'{name}'".count("'"), said
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


NOT_FOUND = {
    "iterator": lambda s, x: x * next(s.numbers), "context variable": lambda s, x: x * next_number(),
    "generator": lambda s, x: x + next(s.running), "global": assign_global, "class of no module": register,
}


def running():
    total = torch.zeros(3)
    while True:
        total = total + 1
        yield total


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("kind", NOT_FOUND)
def test_state_that_is_not_found_is_warned_of(kind, backend):
    model = Keeps(NOT_FOUND[kind])
    model.numbers, model.running = itertools.count(1), running()
    BY_NAME["last"] = Registry.last = torch.zeros(3)
    _, said = told(model, backend=backend)
    assert len(said) == 1 and "results change from call to call" in said[0] and "iterator" in said[0], said


TOTAL = contextvars.ContextVar("TOTAL")


def next_total(s, x):
    TOTAL.set(TOTAL.get() + x)
    return TOTAL.get() * 1


@pytest.mark.parametrize("backend", ["native-export", "torch-dynamo"])
def test_a_tensor_without_data_that_torch_export_leaves(backend):
    """It is where no export finds it: the file is there, cannot be compared, and the next export says why."""
    TOTAL.set(torch.zeros(3))
    model = Keeps(next_total)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whence.export(model.eval(), X, backend=backend, verify=True)
    said = [str(each.message) for each in caught if each.category is whence.WhenceWarning]
    assert len(said) == 2 and "E0308" in said[0] and "is not verified: E0207" in said[1], said
    for again in EVERY:
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
    assert not [each for each in caught if "E0308" in str(each.message)]


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x, y):
        self.total += x
        y.add_(1)
        return self.total * y


@pytest.mark.parametrize("backend", ["native", "torch-torchscript"])
def test_a_scripted_model(backend):
    said = told(torch.jit.script(Counts()), (X, X.clone()), backend=backend)[1]
    assert any("'total'" in each for each in said) and sum("its input 'y'" in each for each in said) == 1
    with pytest.raises(whence.WhenceError, match="'x' and 'y' share memory"):
        whence.export(torch.jit.script(Counts()), (X, X), backend=backend)


@pytest.mark.parametrize("backend", ["native-export", "torch-dynamo"])
def test_an_exported_program(backend):
    program = torch.export.export(Counts(), (X, X.clone()))
    with pytest.warns(whence.WhenceWarning, match="E0308") as warned:
        whence.export(program, backend=backend)
    said = [str(each.message) for each in warned if "E0308" in str(each.message)]
    assert len(said) == 2 and "writes to 'total'" in said[0] and "its input 'y'" in said[1]


class AsksForCapture(torch.nn.Module):
    """As transformers' attention does, which leaves a mask out where it is not captured."""

    def forward(self, x):
        captured = torch.jit.is_tracing() or torch.compiler.is_exporting()
        return x.cumsum(0) if captured else x.sum(0, keepdim=True).expand(x.shape)


@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_a_model_that_goes_another_way_while_it_is_captured_is_warned_of(backend):
    with pytest.warns(whence.WhenceWarning, match="E0303.*on the example itself"):
        whence.export(AsksForCapture(), (torch.rand(3, 4),), backend=backend)
    random = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).train()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whence.export(random, (torch.rand(3, 4),), backend=backend, training=torch.onnx.TrainingMode.TRAINING)
    assert not [each for each in caught if "E0303" in str(each.message)]


# ---- arguments ------------------------------------------------------------------------------------------------------


class Writes(torch.nn.Module):
    def forward(self, x, y):
        x.add_(1)
        return x + 2 * y["a"]


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("second", [lambda t: t, lambda t: t.view(4), lambda t: t[:]], ids=["same", "view", "slice"])
def test_arguments_that_share_memory_and_are_written_to_are_refused(second, backend):
    t = torch.ones(4)
    with pytest.raises(whence.WhenceError, match="'x' and 'y_a' share memory") as refused:
        whence.export(Writes(), (t, {"a": second(t)}), backend=backend)
    assert refused.value.code == "E0303" and torch.equal(t, torch.ones(4))


@pytest.mark.parametrize("backend", EVERY)
def test_arguments_of_one_memory_that_do_not_overlap(backend):
    t = torch.ones(8)
    program, said = told(Writes(), (t[:4], {"a": t[4:]}), backend=backend, verify=True)
    assert program.verification.ok and len(said) == 1 and "its input 'x'" in said[0]


@pytest.mark.parametrize("backend", EVERY)
def test_one_tensor_given_twice_is_two_inputs(backend):
    class Reads(torch.nn.Module):
        def forward(self, x, y):
            return x - 2 * y

    t = torch.rand(4)
    program, said = told(Reads(), (t, t), backend=backend, verify=True)
    a, b = torch.rand(4), torch.rand(4)
    torch.testing.assert_close(program(a, b)[0], a - 2 * b)
    assert program.verification.ok and said == []


@pytest.mark.parametrize("backend", NATIVE)
def test_a_module_that_is_an_argument_stays_too(backend):
    class Applies(torch.nn.Module):
        def forward(self, x, norm):
            return norm(x) + norm.running_mean * 0

    norm = torch.nn.BatchNorm1d(4).train()
    program, said = told(Applies(), (torch.rand(3, 4), norm), backend=backend, verify=True)
    assert program.verification.ok and not norm.running_mean.any() and norm.num_batches_tracked == 0
    for name in "norm.running_mean", "norm.running_var", "norm.num_batches_tracked":
        assert any(f"'{name}'" in each for each in said), said


def test_verify_gives_the_model_what_it_was_given():
    program = whence.export(Writes(), (torch.ones(4), {"a": torch.ones(4)}))
    t = torch.ones(4)
    assert not program.verify((t, {"a": t})).ok
    assert program.verify((t, {"a": t.clone()})).ok


@pytest.mark.parametrize("backend", EVERY)
def test_an_input_that_is_written_to(backend):
    class Moves(torch.nn.Module):
        def forward(self, x, state, count):
            state["h"].add_(x)
            count.add_(1)
            return x * count, state["h"]

    args = (X, {"h": torch.zeros(3)}, torch.zeros(1))
    _, said = told(Moves(), args, backend=backend, input_names=["x", "h", "step"])
    assert len(said) == 1 and "its input 'step'" in said[0]  # the file's name; 'h' is an output
