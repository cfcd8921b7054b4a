"""An engine is measured with the GPU's memory to itself."""

from __future__ import annotations

import gc

import torch

from radixchat.bench.gpu_engine import measure_engine
from radixchat.bench.gpu_models import TINY, random_checkpoint
from radixchat.bench.gpu_shapes import EngineLoad
from radixchat.bench.gpu_timeline import HostTimeline
from radixchat.engine.config import EngineConfig
from radixchat.engine.device_model import DeviceModel


def test_the_engine_measured_before_is_gone() -> None:
    """With its K and V and its copy of the weights, though nobody else collects garbage."""
    checkpoint = random_checkpoint(TINY, torch.float32, "cpu")
    config = EngineConfig(device="cpu", threads=1, pool_tokens=128, max_running=2)
    gc.disable()
    try:
        for _ in range(3):
            measure_engine("tiny", checkpoint, config, EngineLoad(2, 4, 3), HostTimeline)
        models = [thing for thing in gc.get_objects() if type(thing) is DeviceModel]
    finally:
        gc.enable()
    assert len(models) == 1
