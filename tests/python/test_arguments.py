"""Exports objects as arguments, with every backend: their tensors become named inputs of the file, and the caller's
objects do not change. Results are compared with new arguments."""

import collections
import copy
import functools
import types
import warnings
from dataclasses import dataclass

import pytest
import torch
import whence
from torch.utils import _pytree as pytree
from transformers import (DynamicCache, EncoderDecoderCache, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, StaticCache, T5Config, T5ForConditionalGeneration)
from transformers.modeling_outputs import BaseModelOutput

pytestmark = pytest.mark.usefixtures("quiet")

NATIVE = ["native", "native-export"]
BACKENDS = [*NATIVE, "torch-dynamo", "torch-torchscript"]


def random(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---- caches of transformers -----------------------------------------------------------------------------------------


def tokens(count, seed):
    return torch.randint(3, 30, (1, count), generator=torch.Generator().manual_seed(seed))


SMALL = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
             vocab_size=30, max_position_embeddings=32)


def llama():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SMALL)).eval()


def kv_cache(length, seed, layers=2):
    seeds = range(seed, seed + 2 * layers, 2)
    return DynamicCache([tuple(random(1, 2, length, 4, seed=each) for each in (first, first + 1)) for first in seeds])


def prefill(model, cache, length, seed):
    with torch.no_grad():
        model(input_ids=tokens(length, seed), past_key_values=cache)
    return cache


def dynamic_case():
    return llama(), lambda seed: {"input_ids": tokens(2, seed), "past_key_values": kv_cache(5, seed)}, ("key", "value")


def static_case():
    """A cache written in place. Its length is a tensor, so the file accepts any length."""
    model = llama()
    return model, lambda seed: {
        "input_ids": tokens(1, seed),
        "past_key_values": prefill(model, StaticCache(model.config, 8), 4 + seed, seed)}, (
            "key", "value", "cumulative_length")


def sliding_case():
    torch.manual_seed(0)
    model = MistralForCausalLM(MistralConfig(**SMALL, sliding_window=4)).eval()
    return model, lambda seed: {
        "input_ids": tokens(2, seed),
        "past_key_values": prefill(model, DynamicCache(config=model.config), 6, seed)}, ("key", "value")


def encoder_decoder_case():
    torch.manual_seed(0)
    model = T5ForConditionalGeneration(T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=2, num_heads=2, vocab_size=30,
                                                decoder_start_token_id=0)).eval()
    return model, lambda seed: {
        "encoder_outputs": BaseModelOutput(last_hidden_state=random(1, 6, 8, seed=seed)),
        "past_key_values": EncoderDecoderCache(kv_cache(3, seed), kv_cache(6, seed + 9)),
        "decoder_input_ids": tokens(1, seed)}, ("decoder.key", "decoder.value", "encoder.key", "encoder.value")


CACHES = {"DynamicCache": dynamic_case, "StaticCache": static_case, "sliding": sliding_case,
          "EncoderDecoderCache": encoder_decoder_case}


def layer_tensors(cache, part):
    """Returns the tensor of this name in each layer of a transformers cache."""
    side, _, word = part.rpartition(".")
    halves = {"decoder": "self_attention_cache", "encoder": "cross_attention_cache"}
    layers = (getattr(cache, halves[side]) if side else cache).layers
    return [getattr(layer, {"key": "keys", "value": "values"}.get(word, word)) for layer in layers]


def contents(cache, parts):
    return {f"{layer}.{part}": tensor for part in parts for layer, tensor in enumerate(layer_tensors(cache, part))}


def assert_equals_model(program, model, other, parts):
    """Compares the logits and the returned cache with the model's for arguments that were not exported."""
    names = [value.name for value in program.model_proto.graph.output]
    got = dict(zip(names, program(**other), strict=True))
    with torch.no_grad():
        expected = model(**other)
    torch.testing.assert_close(got["logits"], expected.logits, rtol=1e-4, atol=1e-5)
    for name, tensor in contents(expected.past_key_values, parts).items():
        torch.testing.assert_close(got[f"present.{name}"], tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", CACHES)
def test_caches(kind, backend):
    model, arguments, parts = CACHES[kind]()
    call = arguments(0)
    before = {name: (tensor, tensor.clone()) for name, tensor in contents(call["past_key_values"], parts).items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", whence.WhenceWarning)
        program = whence.export(model, (), kwargs=call, backend=backend, verify=True)
    assert program.verification.ok and program.backend == backend
    messages = " ".join(str(warning.message) for warning in caught if warning.category is whence.WhenceWarning)
    assert "_key'" not in messages and "_value'" not in messages  # the file returns the updated caches
    after = contents(call["past_key_values"], parts)
    assert all(after[name] is tensor and torch.equal(tensor, content) for name, (tensor, content) in before.items())

    graph = program.model_proto.graph
    assert {value.name for value in graph.input} >= {f"past_key_values.{name}" for name in before}
    names = [value.name for value in graph.output]
    assert {name for name in names if name.startswith("present")} == {f"present.{name}" for name in before}

    assert_equals_model(program, model, arguments(1), parts)


@pytest.mark.parametrize("backend", NATIVE)
def test_static_cache_becomes_tensor_scatter(backend):
    model, arguments, parts = static_case()
    program = whence.export(model, (), kwargs=arguments(0), backend=backend, opset_version=24, operators="fused")
    counts = collections.Counter(node.op_type for node in program.model_proto.graph.node)
    assert counts["TensorScatter"] == 2 * len(model.model.layers) and not counts["ScatterElements"]
    for seed in (1, 3):
        assert_equals_model(program, model, arguments(seed), parts)


@pytest.mark.parametrize("length", [2, 6])
def test_static_sliding_window_is_fixed_to_the_examples_length(length):
    torch.manual_seed(0)
    model = MistralForCausalLM(MistralConfig(**SMALL, sliding_window=4)).eval()
    cache = prefill(model, StaticCache(model.config, 8), length, 0)
    with pytest.warns(whence.WhenceWarning, match=f"E0304.*correct only after {length} tokens.*DynamicCache"):
        whence.export(model, (), kwargs={"input_ids": tokens(1, 0), "past_key_values": cache}, backend="native-export")


@pytest.fixture
def registered():
    """Registers DynamicCache for torch.export as transformers does, which affects the whole process."""
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    register_dynamic_cache_export_support()
    yield
    pytree._deregister_pytree_node(DynamicCache)
    torch.fx._pytree.SUPPORTED_NODES.pop(DynamicCache, None)


LENGTH = {2: "past"}


@pytest.mark.parametrize("sizes", [
    {"dynamic_axes": {f"past_key_values.{layer}.{part}": LENGTH for layer in (0, 1) for part in ("key", "value")}
     | {"present.0.key": {2: "total"}}},
    {"dynamic_shapes": {"past_key_values": [{"key": LENGTH, "value": LENGTH}] * 2}},
    {"dynamic_shapes": {"past_key_values": [(LENGTH, LENGTH), (LENGTH, LENGTH)]}},
    {"dynamic_shapes": {"past_key_values": {"key_cache": [LENGTH] * 2, "value_cache": [LENGTH] * 2}}},
    {"dynamic_shapes": {"past_key_values": [[LENGTH] * 2, [LENGTH] * 2]}},
], ids=["axes", "layers", "pairs", "by-name", "nested-lists"])
def test_registered_cache_with_a_dynamic_length(sizes, registered, request):
    backend = "native-export" if "by-name" in request.node.name else "native"
    model, arguments, parts = dynamic_case()
    program = whence.export(model, (), kwargs=arguments(0), backend=backend, **sizes)
    inputs = {value.name: value.type.tensor_type.shape.dim for value in program.model_proto.graph.input}
    assert {dims[2].dim_param for name, dims in inputs.items() if name != "input_ids"} == {"past"}
    other = {"input_ids": tokens(2, 3), "past_key_values": kv_cache(9, 3)}
    got = program(**other)
    with torch.no_grad():
        expected = model(**other)
    torch.testing.assert_close(got[0], expected.logits, rtol=1e-4, atol=1e-5)
    assert expected.past_key_values.get_seq_length() == 11 and program(**{**other, "past_key_values": kv_cache(9, 3)})


@pytest.mark.parametrize("shapes, fragment", [
    ([{"key": LENGTH, "worth": LENGTH}] * 2, "worth"), ([LENGTH] * 3, "3 entries"), ("past", "a str"),
    ([{"key": {4: "past"}}] * 2, "no axis 4")])
def test_invalid_shapes_for_a_cache_are_refused(shapes, fragment):
    model, arguments, _ = dynamic_case()
    with pytest.raises(whence.WhenceError, match=fragment) as raised:
        whence.export(model, (), kwargs=arguments(0), dynamic_shapes={"past_key_values": shapes})
    assert raised.value.code == "E0104" and raised.value.remedy


@pytest.mark.parametrize("backend", NATIVE)
def test_empty_cache_stays_empty(backend):
    model, cache = llama(), DynamicCache()
    program = whence.export(model, (), kwargs={"input_ids": tokens(3, 0), "past_key_values": cache}, backend=backend,
                            verify=True)
    assert program.verification.ok and not cache.layers
    got = program(input_ids=tokens(3, 1), past_key_values=cache)
    with torch.no_grad():
        expected = model(input_ids=tokens(3, 1), past_key_values=cache)
    torch.testing.assert_close(got[1:], tuple(contents(expected.past_key_values, ("key", "value"))[name] for name in (
        "0.key", "0.value", "1.key", "1.value")), rtol=1e-4, atol=1e-5)
    with pytest.raises(whence.WhenceError) as raised:  # the model has filled it
        program(input_ids=tokens(3, 1), past_key_values=cache)
    assert raised.value.code == "E0104"


class CacheStep(torch.nn.Module):
    """Takes a cache in a container among other arguments, and returns it only on request."""

    def forward(self, caches, x, returned=True):
        keys, _ = caches["own"][0].update(x, x + 1, 0)
        result = keys.sum(2)
        return (result, caches["own"][0], (x * 2,)) if returned else result


@pytest.mark.parametrize("backend", NATIVE)
def test_caches_in_containers(backend):
    program = whence.export(CacheStep(), ({"own": [kv_cache(5, 0, 1)]}, random(1, 2, 1, 4, seed=7)), backend=backend)
    graph = program.model_proto.graph
    assert [value.name for value in graph.input] == ["caches_own_0.0.key", "caches_own_0.0.value", "x"]
    assert [value.name for value in graph.output] == ["output_0", "present.0.key", "present.0.value", "output_2_0"]
    cache, x = kv_cache(5, 3, 1), random(1, 2, 1, 4, seed=8)
    keys, values = cache.layers[0].keys, cache.layers[0].values
    keys, values = torch.cat([keys, x], 2), torch.cat([values, x + 1], 2)
    torch.testing.assert_close(program({"own": [cache]}, x), (keys.sum(2), keys, values, x * 2))


@pytest.mark.parametrize("backend", BACKENDS)
def test_requested_names_are_used(backend):
    program = whence.export(CacheStep(), ({"own": [kv_cache(5, 0, 1)]}, random(1, 2, 1, 4, seed=7)), backend=backend,
                            input_names=["k0"], output_names=["sum", "new_k0"], verify=True)
    graph = program.model_proto.graph
    assert [value.name for value in graph.input] == ["k0", "caches_own_0.0.value", "x"]
    assert [value.name for value in graph.output] == ["sum", "new_k0", "present.0.value", "output_2_0"]
    assert program.verification.ok


@pytest.mark.parametrize("backend", BACKENDS)
def test_cache_that_is_not_returned_gives_a_warning(backend):
    with pytest.warns(whence.WhenceWarning, match="changes the contents of 'caches'"):
        whence.export(CacheStep(), ({"own": [kv_cache(5, 0, 1)]}, random(1, 2, 1, 4, seed=7)), backend=backend,
                      kwargs={"returned": False})


@pytest.mark.parametrize("backend", NATIVE)
def test_dict_changed_by_forward_gives_a_warning(backend):
    class Adds(torch.nn.Module):
        def forward(self, table):
            table["sum"] = table["a"] + 1
            return table["sum"] * 2

    table = {"a": random(3, seed=0)}
    with pytest.warns(whence.WhenceWarning, match="changes the contents of 'table'"):
        whence.export(Adds(), (table,), backend=backend)
    assert list(table) == ["a"]


# ---- other objects --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frozen:
    weight: torch.Tensor
    by: int = 2


class Point:
    """Registered with pytree below."""

    def __init__(self, x, y):
        self.x, self.y = x, y


pytree.register_pytree_node(Point, lambda point: ([point.x, point.y], None), lambda children, _: Point(*children),
                            serialized_type_name="whence_test.Point")

Pair = collections.namedtuple("Pair", "left right")


class Slots:
    __slots__ = ("held", "name")

    def __init__(self, held, name):
        self.held, self.name = held, name


class State:
    """State as in recurrent models: nested tensors, numbers, and an attribute that refers to the object itself."""

    def __init__(self, seed):
        self.layers = [{"h": random(3, seed=seed)}, {"h": random(3, seed=seed + 1)}]
        self.count, self.seen, self.owner = 3, [], self
        self.space = types.SimpleNamespace(bias=random(3, seed=seed + 2))


class Named(dict):
    pass


class Everything(torch.nn.Module):
    def forward(self, frozen, point, pair, nested, slots, state, again, numbers, odd):
        state.seen.append(state.count)
        state.layers[0]["h"] = state.layers[0]["h"] * 2  # also visible through ``again``
        numbers.add(7)
        return (frozen.weight * frozen.by + 3 * point.x - point.y + 5 * pair.left[0] - pair.right
                + 7 * nested["a b"][1]["c"] + 11 * slots.held + 13 * again.layers[0]["h"] - state.owner.layers[1]["h"]
                + 17 * state.space.bias + sum(numbers) + 19 * odd["z"])


def everything(seed):
    rows = iter(random(12, 3, seed=seed))
    state = State(seed + 20)
    return (Frozen(next(rows)), Point(next(rows), next(rows)), Pair([next(rows)], next(rows)),
            {"a b": (None, {"c": next(rows)})}, Slots(next(rows), "name"), state, state, {1, 2}, Named(z=next(rows)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_objects_that_contain_tensors(backend):
    arguments = everything(0)
    program = whence.export(Everything(), arguments, backend=backend, verify=True)
    assert program.verification.ok
    assert [value.name for value in program.model_proto.graph.input] == [
        "frozen_weight", *(["point_0", "point_1"]), "pair_left_0", "pair_right", "nested_a_b_1_c", "slots_held",
        "state_layers_0_h", "state_layers_1_h", "state_space_bias", "odd_z"]
    untouched, state = everything(0), arguments[5]
    assert not state.seen and state.owner is state and arguments[7] == {1, 2}
    assert torch.equal(state.layers[0]["h"], untouched[5].layers[0]["h"])
    expected = Everything()(*everything(1))
    torch.testing.assert_close(program(*everything(1))[0], expected, rtol=1e-4, atol=1e-5)

    other = list(everything(1))
    other[5].count = other[6].count = 4
    with pytest.raises(whence.WhenceError, match="'state_count' is fixed .* at 3, but the call has 4") as raised:
        program(*other)
    assert raised.value.code == "E0104"


def test_dtype_is_fixed_in_the_file():
    class Casts(torch.nn.Module):
        def forward(self, x, dtype):
            return x.to(dtype)

    program = whence.export(Casts(), (random(3, seed=0), torch.float16))
    assert program(random(3, seed=1), torch.float16)[0].dtype == torch.float16
    with pytest.raises(whence.WhenceError, match="fixed in the file at torch.float16") as raised:
        program(random(3, seed=1), torch.float64)
    assert raised.value.code == "E0104"


@pytest.mark.parametrize("backend", BACKENDS)
def test_model_changes_only_copies_of_its_arguments(backend):
    """Includes arguments without tensors and tensors written in place: every run gets the same arguments."""
    class Changes(torch.nn.Module):
        def forward(self, x, calls, random, table):
            calls.append(len(calls))
            table["y"].add_(1)
            return x * len(calls) + table["y"] + (0 if random is None else torch.rand(3, generator=random))

    calls, generator, y = [0, 0], torch.Generator().manual_seed(0), torch.zeros(3)
    state = generator.get_state()
    whence.export(Changes(), (torch.ones(3), calls, generator if backend == "native" else None, {"y": y}),
                  backend=backend)
    assert calls == [0, 0] and torch.equal(y, torch.zeros(3)) and torch.equal(generator.get_state(), state)


def closure(tensor):
    return lambda: tensor


class Holds:
    def __init__(self, held):
        self.held = held

    def method(self):
        return self.held


class Context:
    """Registered with pytree, with a tensor in the context, which pytree does not traverse."""

    def __init__(self, x, mask):
        self.x, self.mask = x, mask


pytree.register_pytree_node(Context, lambda each: ([each.x], each.mask),
                            lambda children, mask: Context(*children, mask))


def with_attribute(value, tensor):
    value.extra = tensor
    return value


@pytest.mark.parametrize("make, fragment", [
    (lambda tensor: {tensor}, "builtins.set"),
    (closure, "builtins.function"),
    (lambda tensor: functools.partial(torch.add, tensor), "functools.partial"),
    (lambda tensor: Holds(tensor).method, "builtins.method"),
    (lambda tensor: iter([tensor]), "list_iterator"),
    (lambda tensor: (each for each in [tensor]), "generator"),
    (lambda tensor: Holds([{"a": closure([tensor])}]), "Holds"),
    (lambda tensor: [Holds(tensor), Holds({frozenset([tensor])})], "argument_1.*Holds"),
    (lambda tensor: Context(tensor, tensor + 1), "Context"),
    (lambda tensor: with_attribute(Named(a=tensor), tensor + 1), "Named"),
], ids=["set", "closure", "partial", "method", "iterator", "generator", "closure-in-object", "set-in-object",
        "registered", "dict-attribute"])
def test_tensors_that_cannot_be_reached_are_refused(make, fragment):
    class Never(torch.nn.Module):
        def forward(self, x, argument):
            raise AssertionError("it ran")

    for call in (whence.export, whence.unconvertible_ops):
        with pytest.raises(whence.WhenceError, match=fragment) as raised:
            call(Never(), (random(3, seed=0), make(random(3, seed=1))))
        assert raised.value.code == "E0104" and "torch" in raised.value.remedy


@pytest.mark.parametrize("backend", BACKENDS)
def test_sparse_tensors_are_refused(backend):
    class Sums(torch.nn.Module):
        def forward(self, x, pairs):
            return x + pairs[0].to_dense()

    x = random(2, 3, seed=0)
    with pytest.raises(whence.WhenceError, match="'pairs_0' is a tensor of layout sparse_coo") as raised:
        whence.export(Sums(), (x, (x.to_sparse(), x)), backend=backend)
    assert raised.value.code == "E0104" and "pairs_0.to_dense()" in raised.value.remedy


def test_list_that_contains_itself_is_refused():
    cycle = [random(3, seed=0)]
    cycle.append(cycle)
    with pytest.raises(whence.WhenceError, match="contains itself") as raised:
        whence.export(torch.nn.Identity(), (cycle,))
    assert raised.value.code == "E0104"


def test_arguments_without_tensors_may_be_any_object():
    """Functions, modules, classes, and objects that contain functions are fixed in the file."""
    class Uses(torch.nn.Module):
        def forward(self, x, activation, layer, kind, settings):
            return settings.scale(layer(activation(x))) if kind is Holds else x

    layer = torch.nn.Linear(3, 3).eval()
    settings = types.SimpleNamespace(scale=lambda x: x * 2, log=warnings.warn, size=torch.Size([3]))
    program = whence.export(Uses(), (random(2, 3, seed=0), torch.relu, layer, Holds, settings), verify=True)
    assert program.verification.ok
    x = random(2, 3, seed=1)
    torch.testing.assert_close(program(x, torch.relu, layer, Holds, copy.copy(settings))[0], layer(x.relu()) * 2)
    torch.testing.assert_close(program(x, torch.relu, copy.deepcopy(layer), Holds, settings)[0], layer(x.relu()) * 2)


def times(factor, **more):
    return lambda x: x * factor


DOUBLED, ADDED = times(2), functools.partial(torch.add, other=2)


class Empty:
    pass


def linear(seed, **options):
    torch.manual_seed(seed)
    return torch.nn.Linear(3, 3, **options)


@pytest.mark.parametrize("value, equal, other", [
    (lambda: linear(0), lambda: linear(0), lambda: linear(1)),
    (lambda: linear(0), lambda: linear(0), lambda: linear(0).train(False)),
    (lambda: torch.nn.LeakyReLU(0.1), lambda: torch.nn.LeakyReLU(0.1), lambda: torch.nn.LeakyReLU(0.2)),
    (lambda: DOUBLED, lambda: DOUBLED, lambda: times(2)),
    (lambda: ADDED, lambda: ADDED, lambda: functools.partial(torch.add, other=3)),
    (lambda: [1, linear(0)], lambda: [1, linear(0)], lambda: [1, linear(1)]),
    (lambda: types.SimpleNamespace(f=DOUBLED), lambda: types.SimpleNamespace(f=DOUBLED),
     lambda: types.SimpleNamespace(f=times(2))),
    (Empty, Empty, object),
], ids=["weights", "mode", "attributes of a module", "function", "partial", "in a list", "in an object",
        "empty object"])
def test_program_refuses_changed_fixed_values(value, equal, other):
    class Takes(torch.nn.Module):
        def forward(self, x, value):
            return x * 2

    program = whence.export(Takes(), (random(2, 3, seed=0), value()))
    x = random(2, 3, seed=1)
    torch.testing.assert_close(program(x, equal())[0], x * 2)
    with pytest.raises(whence.WhenceError, match="'value.*' is fixed in the file at") as refused:
        program(x, other())
    assert refused.value.code == "E0104" and "\n" not in str(refused.value)


