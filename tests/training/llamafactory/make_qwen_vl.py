"""Makes a Qwen3-VL of random parameters: 0.3 million, or as many as the model of 2B has.

python make_qwen_vl.py FOLDER CORPUS [tiny | 2b]     (with LLaMA-Factory's Python, or another)
"""

import sys
from pathlib import Path

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, trainers

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
TEXT = {
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
    },
    "2b": {
        "vocab_size": 151936,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 262144,
    },
}
ROTATIONS = {"tiny": [6, 5, 5], "2b": [24, 20, 20]}
VISION = {
    "tiny": {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
    },
    "2b": {
        "depth": 24,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [5, 11, 17],
    },
}


def main() -> None:
    folder, corpus = Path(sys.argv[1]), Path(sys.argv[2]).read_text()
    size = sys.argv[3] if len(sys.argv) > 3 else "tiny"
    fast = tokenizers.Tokenizer(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    fast.train_from_iterator(
        corpus.splitlines(),
        trainers.BpeTrainer(
            vocab_size=1024,
            special_tokens=SPECIAL,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    tokenizer = transformers.Qwen2TokenizerFast(
        tokenizer_object=fast,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token=None,
        additional_special_tokens=SPECIAL[3:],
    )
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in SPECIAL}
    torch.manual_seed(0)
    config = transformers.Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 4096,
            "rope_scaling": {"rope_type": "default", "mrope_section": ROTATIONS[size]},
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": ROTATIONS[size],
                "mrope_interleaved": True,
            },
            **TEXT[size],
        },
        vision_config={
            "out_hidden_size": TEXT[size]["hidden_size"],
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            **VISION[size],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = transformers.Qwen3VLForConditionalGeneration(config)
    pixels = {"shortest_edge": 28 * 28, "longest_edge": 65536}
    processor = transformers.Qwen3VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(
            size=pixels, patch_size=14, merge_size=2, temporal_patch_size=2
        ),
        tokenizer=tokenizer,
        video_processor=transformers.Qwen3VLVideoProcessor(
            size=pixels, patch_size=14, merge_size=2, temporal_patch_size=2
        ),
        chat_template="{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
        "{% if p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
        "{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    )
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


if __name__ == "__main__":
    main()
