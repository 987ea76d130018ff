"""A vision-language model without a past, and eyes for it, for tests of trainers."""

from bytewise import bytewise_tokenizer

MARKS = (
    "<|im_start|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type in ('image', 'image_url') %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_PATCHES = {"patch_size": 14, "temporal_patch_size": 2}
_TITLE = 52
"""Below MiniWoB++'s bar with the goal, in pixels; its pages are 160 wide and 210 high."""


def vision_processor(chat_template=TEMPLATE):
    """Return a processor of Qwen3-VL: a picture is one token for each 28 by 28 pixels.

    It needs no torchvision, as it takes no videos.
    """
    import transformers
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    class Qwen3VLProcessor(transformers.Qwen3VLProcessor):
        def check_argument_for_proper_class(self, name, argument):
            if name != "video_processor":
                super().check_argument_for_proper_class(name, argument)

    sizes = {"shortest_edge": 28 * 28, "longest_edge": 2**18}
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessorPil(size=sizes, merge_size=2, **_PATCHES),
        tokenizer=bytewise_tokenizer(chat_template, MARKS),
        video_processor=None,
        chat_template=chat_template,
    )


def vision_config(processor):
    """Return the configuration of the smallest Qwen3-VL for a processor."""
    import transformers

    tokenizer = processor.tokenizer
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    rope = {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [6, 5, 5],
        "mrope_interleaved": True,
    }
    return transformers.Qwen3VLConfig(
        architectures=["Qwen3VLForConditionalGeneration"],
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "num_key_value_heads": 1,
            "head_dim": 32,
            "max_position_embeddings": 32768,
            "rope_parameters": rope,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_heads": 1,
            "num_position_embeddings": 64,
            "out_hidden_size": 32,
            "spatial_merge_size": 2,
            "deepstack_visual_indexes": [0],
            **_PATCHES,
        },
        **{name: getattr(processor, name) for name in names},
    )


def find_button(picture):
    """Return the centre of the button that a picture of click-test shows, in pixels."""
    page = picture.convert("L").crop((2, _TITLE, 158, 208))
    left, top, right, bottom = page.point(lambda shade: 255 * (shade < 246)).getbbox()
    return 2 + (left + right) // 2, _TITLE + (top + bottom) // 2
