"""What a client reads: the record of a turn as JSON."""

from __future__ import annotations

import json

from radixchat.server.protocol import (
    OutputLogprob,
    ResponseDone,
    ResponseTimings,
    ResponseUsage,
)

DONE = ResponseDone(
    conversation="conv_1",
    response="resp_1",
    status="completed",
    reason=None,
    output_text="Hi",
    usage=ResponseUsage(10, 8, 2, 3, draft_tokens=4, accepted_tokens=1, kept_tokens=2),
    timings=ResponseTimings(5.0, 4.0, 2.0, queue_ms=1.5),
    input_ids=(1, 2),
    output_ids=(3, 4, 5),
    stop="\n",
    n_ctx=100,
    tokens_left=89,
    left_out=("msg_1", "msg_2"),
    left_out_tokens=30,
)


def test_a_turn_tells_what_was_guessed_what_it_waited_and_what_is_left() -> None:
    """The counts of speculation, the queue time, the stop text and the room, all in the record."""
    turn = json.loads(json.dumps(DONE.to_turn()))
    assert turn["usage"]["output_tokens_details"] == {
        "draft_tokens": 4,
        "accepted_tokens": 1,
        "kept_tokens": 2,
    }
    assert (turn["timings"]["draft_n"], turn["timings"]["draft_n_accepted"]) == (4, 1)
    assert turn["timings"]["queue_ms"] == 1.5
    assert (turn["stop"], turn["n_ctx"], turn["tokens_left"]) == ("\n", 100, 89)
    assert (turn["left_out"], turn["left_out_tokens"]) == (["msg_1", "msg_2"], 30)
    assert turn["logprobs"] is None


def test_logprobs_have_the_form_of_the_responses_api() -> None:
    """token, bytes, logprob and top_logprobs, which have no top_logprobs; a control token: null."""
    end = OutputLogprob("<|im_end|>", None, -3.0)
    half = OutputLogprob(
        "\ufffd", b"\xf0\x9f", -0.5, (OutputLogprob("\ufffd", b"\xf0\x9f", -0.5), end)
    )
    assert half.to_dict() == {
        "token": "\ufffd",
        "bytes": [0xF0, 0x9F],
        "logprob": -0.5,
        "top_logprobs": [
            {"token": "\ufffd", "bytes": [0xF0, 0x9F], "logprob": -0.5},
            {"token": "<|im_end|>", "bytes": None, "logprob": -3.0},
        ],
    }


def test_the_speed_is_that_of_the_steps_after_the_first() -> None:
    """Tokens that came with the first took no time of their own: a right draft is not infinite."""
    usage = ResponseUsage(10, 0, 0, 9)
    assert ResponseTimings(5.0, 4.0, 2000.0).predicted_per_second(usage) == 4
    assert ResponseTimings(5.0, 4.0, 2000.0, first_tokens=5).predicted_per_second(usage) == 2
    assert ResponseTimings(5.0, 4.0, 0.0, first_tokens=9).predicted_per_second(usage) is None
    assert ResponseTimings(None, None, None).predicted_per_second(usage) is None
