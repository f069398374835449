"""The bundled model and its tokenizer, and loading models by name."""

from __future__ import annotations

import json
import threading

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen2Config

from agents.render import Renderer
from rl.policy import pretrained, tiny
from rl.policy.cached_forward import make_forward
from rl.policy.hf import HFPolicy
from rl.policy.hub import lookup
from rl.policy.model_config import end_tokens
from tests.support.models import model, next_logits, teacher_forced_logprobs
from tests.support.sampling import params, sample_all

SMALL = {"hidden": 32, "layers": 1, "heads": 1, "intermediate": 32}
TEXTS = (
    "a\nb\r\n\tc  d \n\n",
    " .  , 's n't ? leading and trailing  ",
    "\x00\x7f\u2028\u00a0🎉👩‍👩‍👧e\u0301 ﷺ 𝔘",
    "".join(map(chr, range(0x3000))),
    "Ġ Ċ ĉ literal byte letters",
    "<tool_call>{}</tool_call> <|unknown|>",
)


@pytest.fixture
def folder(tmp_path):
    """Folder of a small model."""
    pretrained.save_pretrained(*tiny.create(**SMALL), tmp_path / "model")
    return tmp_path / "model"


def same_weights(one, other):
    """Whether two models have equal weights under equal names."""
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_equal_seeds_give_equal_weights_and_leave_the_global_generator_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (tiny.create(seed, **SMALL)[0] for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(6)
    assert same_weights(first, tiny.create(1, **SMALL)[0])
    assert same_weights(first, again) and not same_weights(first, other)


def test_the_default_model_has_about_a_million_parameters_and_a_head_size_that_vllm_takes():
    model, tokenizer = tiny.create()
    assert 0.5e6 < sum(p.numel() for p in model.parameters()) < 2e6
    assert model.config.head_dim == 32 and model.config.vocab_size == len(tokenizer) == 298
    assert model.dtype == torch.float32 and model.config._attn_implementation == "sdpa"
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight


def test_the_ends_of_replies_in_the_generation_config_are_read_from_disk(folder):
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [297, 65]}))
    model, tokenizer = pretrained.load_pretrained(str(folder))
    assert end_tokens(model) == (297, 65)
    assert Renderer(tokenizer, stop_ids=end_tokens(model)).stop == (297, 65)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 65}))
    assert end_tokens(pretrained.load_pretrained(str(folder))[0]) == (65,)


def test_an_odd_head_size_is_refused_by_name():
    with pytest.raises(ValueError, match="hidden=100 over heads=3"):
        tiny.create(hidden=100, heads=3)


@pytest.mark.parametrize("text", TEXTS)
def test_every_text_survives_its_tokens(text, folder):
    for tokenizer in (tiny.byte_tokenizer(), AutoTokenizer.from_pretrained(folder)):
        ids = tokenizer.encode(text, add_special_tokens=False, verbose=False)
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def test_each_special_is_one_token_and_no_byte_is_missing(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert [tokenizer.encode(mark) for mark in tiny.SPECIAL_TOKENS] == [[292 + i] for i in range(6)]
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|pad|>", "<|end|>")
    assert sorted(tokenizer.get_vocab().values()) == list(range(298))


def test_a_byte_is_its_id_and_each_listed_word_is_one_token(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.encode("47 + \n?") == list(b"47 + \n?")
    assert [len(tokenizer.encode(word)) for word in tiny.WORDS] == [1] * len(tiny.WORDS)
    assert len(tokenizer.encode("higher, lower")) == 4


def test_the_template_spends_no_token_on_glue():
    tokenizer = tiny.byte_tokenizer()
    messages = [{"role": "user", "content": "2+2\n"}, {"role": "assistant", "content": " 4"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|user|>2+2\n<|end|><|assistant|> 4<|end|><|assistant|>"


def test_the_template_shows_tools_calls_and_text_blocks():
    tokenizer = tiny.byte_tokenizer()
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": {"x": "é<&'", "y": [1, None]}}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "3", "tool_call_id": "c"},
    ]
    tools = [{"type": "function", "function": {"name": "add"}}]
    text = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
    assert text == (
        '<|system|>[{"type":"function","function":{"name":"add"}}]<|end|><|user|>ab<|end|><|assistant|>'
        '<tool_call>{"name":"add","arguments":{"x":"é<&\'","y":[1,null]}}</tool_call><|end|><|tool|>3<|end|>'
    )


@pytest.mark.parametrize(
    "message, word",
    [({"role": "developer", "content": "x"}, "developer"), ({"role": "user", "content": [{"type": "image"}]}, "image")],
)
def test_the_template_refuses_what_the_model_cannot_read(message, word):
    with pytest.raises(Exception, match=word):
        tiny.byte_tokenizer().apply_chat_template([message], tokenize=False)


def test_a_saved_model_loads_exactly_by_the_auto_classes_and_by_name(folder):
    model, tokenizer = tiny.create(**SMALL)
    plain = AutoModelForCausalLM.from_pretrained(folder)
    by_name, saved_tokenizer = pretrained.load_pretrained(str(folder))
    assert same_weights(model, plain) and same_weights(model, by_name)
    assert saved_tokenizer.chat_template == tokenizer.chat_template
    ids = torch.tensor([tokenizer.encode("<|user|>hi<|end|><|assistant|>")])
    assert torch.equal(model(ids).logits, by_name(ids).logits)
    generation = json.loads((folder / "generation_config.json").read_text())
    assert (generation["eos_token_id"], generation["pad_token_id"]) == (297, 292)


def test_a_run_folder_stands_for_its_latest_model(folder, tmp_path):
    latest = tmp_path / "run" / "checkpoints" / "latest"
    latest.mkdir(parents=True)
    folder.rename(latest / "model")
    assert same_weights(pretrained.load_pretrained(str(tmp_path / "run"))[0], tiny.create(**SMALL)[0])
    assert same_weights(pretrained.load_pretrained(str(latest))[0], tiny.create(**SMALL)[0])


def test_tiny_depends_on_its_seed():
    assert same_weights(pretrained.load_pretrained("tiny", seed=4)[0], tiny.create(4)[0])


def test_a_tokenizer_that_a_family_would_garble_is_loaded_as_it_was_saved(tmp_path):
    vocab = {token: i for i, token in enumerate(["<unk>", "<end>", "a", "b", "\n", " "])}
    backend = Tokenizer(WordLevel(vocab, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", eos_token="<end>", chat_template="{{ messages[0].content }}"
    )
    config = Qwen2Config(
        vocab_size=8, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=1,
        num_key_value_heads=1, bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    pretrained.save_pretrained(AutoModelForCausalLM.from_config(config), tokenizer, tmp_path)
    tokenizer_again = pretrained.load_pretrained(str(tmp_path))[1]
    assert tokenizer_again.decode(tokenizer_again.encode("a\nb b", add_special_tokens=False)) == "a\nb b"


@pytest.mark.parametrize("value", ["x", 0, -1, 1.5, True])
@pytest.mark.parametrize("field", ["vocab_size", "hidden_size", "num_attention_heads", "num_hidden_layers"])
def test_a_size_that_is_none_is_named_with_its_file_and_field(field, value, folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, field: value}))
    line = f"model {str(folder)!r}: its config.json has {field} {value!r}; give it as a whole number from 1 on"
    assert fault(folder) == line
    (folder / "config.json").write_text(json.dumps({**config, "text_config": {field: value}}))
    assert fault(folder) == line


def test_a_fault_of_the_config_is_not_blamed_on_the_tokenizer(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_act": 3, "max_position_embeddings": "many"}))
    line = fault(folder)
    assert line.startswith(f"model {str(folder)!r}: its config.json does not load: ") and "tokenizer" not in line
    assert "hidden_act" in line or "max_position_embeddings" in line


def test_a_chat_template_that_is_not_utf_8_is_named(folder):
    (folder / "chat_template.jinja").write_bytes(b"{{ messages }} caf\xe9")
    assert fault(folder) == (
        f"model {str(folder)!r}: its chat_template.jinja is not UTF-8 text (byte 18); copy it again from where the model "
        "is from"
    )


def fault(name, **kwargs):
    """The message of the error that loading `name` raises, which must be one line."""
    with pytest.raises(ValueError) as error:
        pretrained.load_pretrained(str(name), **kwargs)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_mistyped_name_or_path_is_told_the_nearest(folder, tmp_path):
    assert "did you mean 'tiny'" in fault("tinny")
    assert f"did you mean {str(folder)!r}" in fault(tmp_path / "modle")
    assert f"the nearest that exists is {str(tmp_path)!r}" in fault(tmp_path / "zzz" / "yyy")
    assert f"give its folder, {str(folder)!r}" in fault(folder / "config.json")
    (tmp_path / "empty").mkdir()
    assert "no config.json" in fault(tmp_path / "empty")
    assert "give tiny, a folder or a hub id" in fault("")


def test_a_hub_that_is_out_of_reach_is_said_in_one_line_and_without_retries(monkeypatch):
    from huggingface_hub import HfApi

    requests = []

    def offline(self, name, **kwargs):
        requests.append(name)
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(HfApi, "model_info", offline)
    assert "hub is out of reach (no route)" in fault("nobody/nothing-of-this-name")
    assert requests == ["nobody/nothing-of-this-name"]


def test_a_hub_that_does_not_answer_is_waited_for_no_longer_than_the_limit(monkeypatch):
    from huggingface_hub import HfApi

    end = threading.Event()
    monkeypatch.setattr(HfApi, "model_info", lambda *_, **__: end.wait())  # as a look-up of the address may block
    monkeypatch.setattr(lookup, "ANSWER_S", 0.05)
    try:
        assert "hub is out of reach (no answer in 0.05 s)" in fault("nobody/nothing-of-this-name")
    finally:
        end.set()


def test_broken_folders_are_told_by_what_is_broken(folder):
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-64])
    assert "damaged or cut short" in fault(folder)
    weights.write_bytes(whole)
    tensors = load_file(weights)
    name = "model.layers.0.self_attn.q_proj.weight"
    save_file({key: value for key, value in tensors.items() if key != name}, weights, metadata={"format": "pt"})
    assert name in fault(folder) and "missing" in fault(folder)
    save_file({**tensors, name: torch.zeros(3, 3)}, weights, metadata={"format": "pt"})
    assert f"weight {name!r} is (3, 3), config.json says (32, 32)" in fault(folder)
    weights.unlink()
    assert "does not load" in fault(folder)


def test_a_folder_without_template_or_tokenizer_is_told_the_fix(folder):
    (folder / "chat_template.jinja").unlink()
    assert "no chat template; take the instruct version" in fault(folder)
    (folder / "tokenizer.json").unlink()
    assert "it has no tokenizer; copy tokenizer.json" in fault(folder)


def test_an_empty_tokenizer_that_stands_in_for_a_missing_file_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}  # whose class needs no file
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").unlink()
    assert AutoTokenizer.from_pretrained(folder).encode("some words") == []
    assert "it has no tokenizer; copy tokenizer.json" in fault(folder)


def test_weights_that_are_not_finite_are_said_to_be(folder):
    weights = load_file(folder / "model.safetensors")
    next(iter(weights.values()))[0] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=f"weights of {folder} are not finite"):
        make_forward(pretrained.load_pretrained(str(folder))[0])


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"])
def test_a_damaged_json_file_is_named(folder, name):
    for content, reason in [
        ("", "is empty"),
        ('{"a": ', "is not JSON (Expecting value"),
        ("[1]", "holds no JSON object"),
    ]:
        (folder / name).write_text(content)
        assert f"its {name} {reason}" in fault(folder)


def test_a_chat_template_in_the_file_of_an_older_processor_is_read_and_saved(folder, tmp_path):
    file = folder / "chat_template.jinja"
    template = file.read_text()
    file.unlink()
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    model, tokenizer = pretrained.load_pretrained(str(folder))
    assert tokenizer.chat_template == template
    pretrained.save_pretrained(model, tokenizer, tmp_path / "copy")
    assert (tmp_path / "copy" / "chat_template.jinja").read_text() == template


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"chat_template": null}', "its chat_template.json has None as chat_template, not a text; copy it again"),
        ('{"chat_template": ', "its chat_template.json is not JSON"),
    ],
)
def test_a_file_of_an_older_processor_without_a_chat_template_is_named(folder, content, message):
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.json").write_text(content)
    assert message in fault(folder)


def test_attention_whose_scores_are_capped_is_capped(folder):
    """Gemma 2's: torch's `scaled_dot_product_attention`, which transformers takes by default, knows no cap."""
    changes = {"attn_logit_softcapping": 0.5, "vocab_size": 300, "head_dim": 8, "query_pre_attn_scalar": 8}
    net = model("gemma2", **changes)
    net.save_pretrained(folder)
    net.set_attn_implementation("eager")
    ids = [3, 1, 4, 1, 5, 9, 2, 6]
    loaded, _ = pretrained.load_pretrained(str(folder))
    torch.testing.assert_close(next_logits(loaded, ids), next_logits(net, ids))
    (reply,) = sample_all(HFPolicy(loaded), (ids, params(1, 6, stop=())))
    expected = teacher_forced_logprobs(net, ids, reply.ids)
    assert max(abs(a - b) for a, b in zip(reply.model_logprobs, expected, strict=True)) < 1e-4


def test_a_damaged_chat_template_is_named_with_its_model(folder):
    (folder / "chat_template.jinja").write_text("a\n{% for x in")
    assert f"model '{folder}': its chat template is damaged at line 2: " in fault(folder)


def test_a_tokenizer_file_that_lacks_its_parts_is_told_by_the_kind_of_error(folder):
    (folder / "tokenizer.json").write_text("{}")
    assert "its tokenizer does not load: KeyError: 'added_tokens'" in fault(folder)


def test_devices_are_checked_before_anything_is_loaded():
    assert "take auto, cpu, cuda or cuda:N" in fault("tiny", device="gpu")
    assert "take cpu" in fault("tiny", device="cuda:99")
    assert pretrained.resolve_device("cpu") == torch.device("cpu")
    assert pretrained.resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
