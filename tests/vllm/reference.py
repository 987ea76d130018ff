"""Says what transformers makes of token ids: JSON on stdin, JSON on stdout.

In: `{"model": FOLDER, "sequences": [[prompt ids, completion ids, temperature], ...]}`. Out, for
each sequence: the texts of prompt and completion, special tokens included in the prompt alone, and
the log-probability of each token of the completion.
"""

import json
import sys

import torch
import transformers


def main() -> None:
    """Answers one question."""
    transformers.logging.disable_progress_bar()
    question = json.load(sys.stdin)
    tokenizer = transformers.AutoTokenizer.from_pretrained(question["model"])
    model = transformers.AutoModelForCausalLM.from_pretrained(
        question["model"], dtype=torch.float32
    )
    answers = []
    for prompt, completion, temperature in question["sequences"]:
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
        logprobs = torch.log_softmax(logits / temperature, dim=-1)
        chosen = logprobs[torch.arange(len(completion)), torch.tensor(completion)]
        answers.append(
            {
                "prompt": tokenizer.decode(prompt),
                "completion": tokenizer.decode(completion, skip_special_tokens=True),
                "logprobs": chosen.tolist(),
            }
        )
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
