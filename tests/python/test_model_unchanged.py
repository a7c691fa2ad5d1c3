"""Exporting, verifying or querying a model leaves it unchanged in every mode and with every backend, even after errors.
The expected state is listed here, independently of the package."""

import collections
import random

import numpy
import pytest
import torch
import whence

pytestmark = pytest.mark.usefixtures("quiet")

BACKENDS = ["native", "native-export", "torch-dynamo", "torch-torchscript"]


class Helper:
    def __init__(self):
        self.last, self.calls = None, 0


class Changes(torch.nn.Module):
    """Its forward changes every kind of state that models keep."""

    def __init__(self, fails):
        super().__init__()
        self.fails = fails
        self.first, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.inner = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
        self.table = torch.nn.Embedding(5, 4)
        self.plain, self.count, self.cached = torch.zeros(4), 0, None
        self.history, self.by_size, self.seen = [], {}, {0}
        self.helper, self.recent = Helper(), collections.deque([1, 2], maxlen=2)
        self.frozen = torch.nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x, indices):
        if not torch.compiler.is_exporting():  # torch.export has its own rules for assignments
            with torch.no_grad():
                self.table.weight.clamp_(-1, 1)
            self.plain += 1
            self.count += 1
            self.cached = x.detach()
        y = self.inner(self.norm(self.first(x))) + self.table(indices) + self.frozen
        y = y + torch.rand(4) * 0 + random.random() * 0 + float(numpy.random.rand()) * 0
        self.history.append(x)
        self.by_size[x.shape[1]] = y
        self.seen.add(len(self.history))
        self.helper.last, self.helper.calls = y, self.helper.calls + 1
        self.recent.append(len(self.history))
        if self.fails:
            raise ValueError("at the end")
        return y


X, INDICES = torch.randn(3, 4), torch.tensor([0, 1, 4])


def changing(fails=False):
    torch.manual_seed(0)
    model = Changes(fails)
    with torch.no_grad():
        model.table.weight.mul_(10)
    model.train()
    model.inner.eval()
    model.inner[1].train()
    model.norm.weight.grad = torch.ones(4)
    model.norm.register_forward_hook(lambda *_: None)
    return model


def state_of(model):
    """Returns all state of the model as plain Python values."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers()), "plain": model.plain}
    return {
        "tensors": {name: (id(tensor), tensor.data_ptr(), tensor.tolist(), tensor.requires_grad)
                    for name, tensor in tensors.items()},
        "gradients": {name: parameter.grad is not None and (id(parameter.grad), parameter.grad.tolist())
                      for name, parameter in model.named_parameters()},
        "modules": {name: (id(module), module.training, list(vars(module)), list(module._forward_hooks),
                           list(module._forward_pre_hooks)) for name, module in model.named_modules()},
        "attributes": (model.count, model.cached, list(model.history), dict(model.by_size), sorted(model.seen),
                       vars(model.helper).copy(), list(model.recent)),
        "random": (torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state()[1].tolist()),
    }


@pytest.mark.parametrize("training, fails", [(torch.onnx.TrainingMode.TRAINING, False), ("preserve", True),
                                             ("eval", False)], ids=["training", "failing", "eval"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_export_leaves_the_model_unchanged(backend, training, fails):
    model = changing(fails)
    before, inputs = state_of(model), (X.clone(), INDICES.clone())
    axes = {"x": {0: "batch"}, "indices": {0: "batch"}}
    options = {"backend": backend, "training": training, "verify": True, "dynamic_axes": axes}
    if fails:
        with pytest.raises(ValueError if backend != "torch-dynamo" else Exception, match="at the end"):
            whence.export(model, (X, INDICES), **options)
    else:
        whence.export(model, (X, INDICES), **options)
    assert state_of(model) == before
    assert torch.equal(X, inputs[0]) and torch.equal(INDICES, inputs[1])


@pytest.mark.parametrize("fails", [False, True])
def test_verify_and_queries_leave_the_model_unchanged(fails, tmp_path):
    program = whence.export(changing(), (X, INDICES), tmp_path / "m.onnx")
    model = changing(fails)
    before = state_of(model)
    for run in (lambda: whence.verify(program, model, (X, INDICES)),
                lambda: whence.unconvertible_ops(model, (X, INDICES)),
                lambda: whence.unconvertible_ops(model, (X, INDICES), backend="native-export", training="preserve")):
        if fails:
            with pytest.raises((ValueError, whence.WhenceError), match="at the end"):
                run()
        else:
            run()
        assert state_of(model) == before


class Descriptor:
    def __get__(self, owner, kind=None):
        return 1.0

    def __set__(self, owner, value):
        raise AssertionError("is set")


class Mixin:
    number = 0


class Base(torch.nn.Module):
    number, total, latest = 0, torch.zeros(3), torch.zeros(3)
    history, by_size, seen, recent = [], {"inner": {}}, {0}, collections.deque([1, 2], maxlen=2)


class Part(torch.nn.Module):
    number = 0

    def forward(self, x):
        type(self).number += 1
        return x * 2


class OnItsClass(Base, Mixin):
    """Keeps state in classes without naming them."""

    descriptor = Descriptor()

    def __init__(self, change, fails=False):
        super().__init__()
        self.change, self.fails, self.part = change, fails, Part()

    @property
    def computed(self):
        return 2

    def method(self):
        return 3

    def forward(self, x):
        y = self.change(self, x)
        if self.fails:
            raise ValueError("at the end")
        return self.part(x) + y + self.descriptor


def assign(name, value, owner=type):
    """Returns a change that sets an attribute of the class, or of the object that ``owner`` returns."""
    def change(s, x):
        type.__setattr__(owner(s), name, value(s, x))
        return x
    return change


CLASS_CHANGES = {
    "number": assign("number", lambda s, x: s.number + 1),
    "number of a base": assign("number", lambda s, x: Base.number + 1, lambda s: type(s).__mro__[1]),
    "number of a mixin": assign("number", lambda s, x: 5, lambda s: type(s).__mro__[-2]),
    "tensor": assign("latest", lambda s, x: s.latest + x),
    "tensor of a base": assign("latest", lambda s, x: s.latest + x, lambda s: s.__class__.__bases__[0]),
    "first time": assign("fresh", lambda s, x: x + 1),
    "first time, in a dict": assign("fresh", lambda s, x: {"x": x + 1}),
    "dict": lambda s, x: (s.by_size.update({x.shape[0]: x + 1}), x)[1],
    "dict in a dict": lambda s, x: (s.by_size["inner"].update(x=x), x)[1],
    "list": lambda s, x: (s.history.append(x + 1), x)[1],
    "set": lambda s, x: (s.seen.add(len(s.seen)), x)[1],
    "deque": lambda s, x: (s.recent.append(len(s.recent)), x)[1],
    "method": assign("method", lambda s, x: lambda self: 4),
    "property": assign("computed", lambda s, x: 4),
}


def class_state():
    kinds = (OnItsClass, Base, Mixin, Part)
    attributes = {kind: dict(vars(kind)) for kind in kinds}
    contents = {(position, name): value.tolist() if isinstance(value, torch.Tensor) else repr(value)
                for position, namespace in enumerate(attributes.values()) for name, value in namespace.items()}
    identities = {(position, name): id(value) for position, namespace in enumerate(attributes.values())
                  for name, value in namespace.items() if name != "__doc__"}
    return contents, identities


@pytest.mark.parametrize("fails", [False, True], ids=["", "failing"])
@pytest.mark.parametrize("how", CLASS_CHANGES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_state_of_classes_is_unchanged(backend, how, fails):
    model, before = OnItsClass(CLASS_CHANGES[how], fails).eval(), class_state()
    if fails:
        with pytest.raises(Exception, match="at the end"):
            whence.export(model, torch.ones(3), backend=backend, verify=True)
    else:
        whence.export(model, torch.ones(3), backend=backend, verify=True)
    assert class_state() == before


@pytest.mark.parametrize("backend", [*BACKENDS[:2], "torch-torchscript"])  # torch-dynamo refuses the model
def test_class_tensor_written_in_place_is_unchanged(backend):
    before = class_state()
    whence.export(OnItsClass(lambda s, x: s.total.add_(x) + 0).eval(), torch.ones(3), backend=backend)
    assert class_state() == before


def test_weights_that_are_views_of_one_tensor_are_unchanged():
    """As in a sharded or flattened model; assigning to .data would move a weight to other memory."""
    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.flat = torch.arange(6.0)
            self.one = torch.nn.Parameter(self.flat[:3])
            self.two = torch.nn.Parameter(self.flat[3:].expand(2, 3))

        def forward(self, x):
            with torch.no_grad():
                self.one.data = self.one.data * 2
            self.flat += 1
            return x * self.one + self.two

    model = Flat()
    with pytest.raises(whence.WhenceError, match="a write to 'one'"):  # no tracer records it
        whence.export(model, torch.ones(2, 3), backend="native")
    assert torch.equal(model.flat, torch.arange(6.0)) and model.one.data_ptr() == model.flat.data_ptr()
    assert model.one.tolist() == [0, 1, 2] and model.two.tolist() == [[3, 4, 5]] * 2


@pytest.mark.parametrize("backend", ["native", "torch-torchscript"])
def test_scripted_model_is_unchanged(backend):
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.calls = torch.nn.BatchNorm1d(4), 0
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            self.calls += 1
            self.total += x.sum(0)
            return self.norm(x) + self.total

    model = torch.jit.script(Counts())
    whence.export(model, X, backend=backend, training="preserve", verify=True)
    assert model.calls == 0 and not model.total.any() and not model.norm.running_mean.any() and model.training


def test_exported_program_is_unchanged():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            self.total += x.sum(0)
            return x + self.total

    program = torch.export.export(Counts(), (X,))
    whence.export(program, verify=True)
    assert not program.state_dict["total"].any() and not program.module().total.any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_uninitialised_model_can_be_used_afterwards(backend):
    model = torch.nn.Sequential(torch.nn.LazyLinear(3))
    program = whence.export(model, X, backend=backend)
    torch.testing.assert_close(program(X)[0], model(X).detach())
