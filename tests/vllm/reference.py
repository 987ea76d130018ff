"""Says what transformers makes of token ids: a line of JSON comes in, a line goes out.

In: `{"model": FOLDER, "sequences": [[prompt ids, completion ids, temperature], ...]}`. Out, for
each sequence: the texts of prompt and completion, special tokens included in the prompt alone, and
the log-probability of each token of the completion.
"""

import functools
import json
import sys

import torch
import transformers


def main() -> None:
    """Answers until standard input ends."""
    transformers.logging.disable_progress_bar()
    for line in sys.stdin:
        question = json.loads(line)
        tokenizer, model = load(question["model"])
        answers = [judge(tokenizer, model, *sequence) for sequence in question["sequences"]]
        print(json.dumps(answers), flush=True)


@functools.cache
def load(folder):
    """Returns a folder's tokenizer and model."""
    return (
        transformers.AutoTokenizer.from_pretrained(folder),
        transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
    )


@torch.inference_mode()
def judge(tokenizer, model, prompt, completion, temperature):
    """Answers for one sequence."""
    logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
    logprobs = torch.log_softmax(logits / temperature, dim=-1)
    chosen = logprobs[torch.arange(len(completion)), torch.tensor(completion)]
    return {
        "prompt": tokenizer.decode(prompt),
        "completion": tokenizer.decode(completion, skip_special_tokens=True),
        "logprobs": chosen.tolist(),
    }


if __name__ == "__main__":
    main()
