"""A tokenizer of bytes, for tests of trainers that need no model from anywhere."""

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def bytewise_tokenizer(chat_template=CHATML, marks=("<|im_start|>",)):
    """Return a tokenizer whose tokens are bytes, and the marks of Qwen's chat templates."""
    import tokenizers
    import transformers

    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model = tokenizers.models.BPE({letter: n for n, letter in enumerate(alphabet)}, [])
    bytewise = tokenizers.Tokenizer(model)
    bytewise.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = tokenizers.decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bytewise,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=list(marks),
    )
    made.chat_template = chat_template
    return made
