"""The KV connector as vLLM loads it: hooks in, plain values out, and no exception to either side.

vLLM makes one instance per role. Every hook is thin: it takes out of vLLM's objects what the half of its
role needs, and whatever goes wrong there is logged, counted and answered with "nothing to transfer",
because an exception that leaves a hook ends the whole engine. Start-up is the exception: an engine that
was asked to transfer and can't must not start. Which methods need no guard, and why, says
tests/test_connector_hooks.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorTransferResults,
    SupportsHMA,
)

from .hook_timing import guard, hook, timer
from .host_process import HostProcess, default_command
from .kv_layout import block_tokens_of, describe_caches, layout_name_of
from .memfd_pool import MemfdPool
from .prompt_tokens import tokens_of
from .scheduler_half import SchedulerHalf
from .scheduler_views import finish_reason_of, note_growth
from .settings import read_settings, start_message
from .step_metadata import HostNews, Step
from .vllm_messages import KVFerryHandshake, KVFerryMetadata, KVFerryWorkerNews
from .vllm_stats import KVFerryPromMetrics, KVFerryStats
from .worker_half import WorkerHalf

if TYPE_CHECKING:
    import torch
    from vllm.config import VllmConfig
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.kv_cache_interface import KVCacheConfig
    from vllm.v1.outputs import KVConnectorOutput
    from vllm.v1.request import Request


def _nothing() -> None:
    return None


class KVFerryConnector(KVConnectorBase_V1, SupportsHMA):
    def __init__(
        self,
        vllm_config: VllmConfig,
        role: KVConnectorRole,
        kv_cache_config: KVCacheConfig,
    ) -> None:
        """@raises ValueError for a configuration that can't be served."""
        super().__init__(vllm_config, role, kv_cache_config)
        self.hook_failures = 0
        #: A worker half in a process without a scheduler half, where nobody else ends the timer's steps.
        self._is_alone = False
        self._settings = read_settings(vllm_config)
        self._invalid_block_ids: set[int] = set()
        self._latest: KVFerryMetadata | None = None
        self._pool: MemfdPool | None = None
        self._worker: WorkerHalf | None = None
        self._scheduler: SchedulerHalf | None = None
        if role is KVConnectorRole.SCHEDULER:
            self._scheduler = SchedulerHalf(
                engine_id=self._settings.engine_id,
                block_tokens=block_tokens_of(kv_cache_config),
            )

    # Start, in this order

    def get_mem_pool_context(self) -> MemfdPool:
        self._pool = MemfdPool()
        return self._pool

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        """@raises ValueError, HostRefused, OSError: the engine can't start."""
        allocations = [] if self._pool is None else self._pool.allocations
        caches = describe_caches(
            kv_caches, self._kv_cache_config, allocations, layout_name_of(self._vllm_config)
        )
        fds = [allocation.fd for allocation in allocations]
        worker = WorkerHalf(
            start_host=lambda: HostProcess(default_command(), fds),
            start_message=start_message(self._settings, caches),
            supervision=self._settings.supervision,
            block_size_bytes=sum(region["blockSizeBytes"] for region in caches["regions"]),
        )
        worker.start()
        self._worker = worker
        executor = self._vllm_config.parallel_config.distributed_executor_backend
        self._is_alone = executor != "uni"

    def get_handshake_metadata(self) -> KVFerryHandshake | None:
        facts = None if self._worker is None else self._worker.facts
        return None if facts is None else KVFerryHandshake(facts)

    def set_xfer_handshake_metadata(self, metadata: dict[int, KVConnectorHandshakeMetadata]) -> None:
        handshake = metadata.get(0)
        if self._scheduler is not None and isinstance(handshake, KVFerryHandshake):
            self._scheduler.set_host(HostNews(handshake.facts, is_starting=False))

    # Scheduler half

    @hook(_nothing)
    def on_new_request(self, request: Request) -> None:
        assert self._scheduler is not None
        self._scheduler.on_new_request(
            request.request_id, tokens_of(request), request.kv_transfer_params, request.cache_salt
        )

    @hook(lambda: (0, False))
    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        assert self._scheduler is not None
        count = self._scheduler.matched_tokens(
            request.request_id,
            tokens_of(request),
            request.kv_transfer_params,
            num_computed_tokens,
            request.cache_salt,
        )
        return count, bool(count)

    @hook(_nothing)
    def update_state_after_alloc(
        self, request: Request, blocks: KVCacheBlocks, num_external_tokens: int
    ) -> None:
        assert self._scheduler is not None
        if request.kv_transfer_params:
            self._scheduler.on_allocated(
                request.request_id,
                tokens_of(request),
                request.kv_transfer_params,
                request.num_computed_tokens,
                blocks.get_block_ids(),
                num_external_tokens,
                request.cache_salt,
            )

    @hook(lambda: KVFerryMetadata(Step.nothing(None, False)))
    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> KVFerryMetadata:
        timer.begin_step(bool(scheduler_output.num_scheduled_tokens))
        assert self._scheduler is not None
        half = self._scheduler
        after = note_growth(half, scheduler_output) if half.is_following else {}
        step = half.build_step(after, scheduler_output.preempted_req_ids)
        if self._latest is None or step is not self._latest.step:
            self._latest = KVFerryMetadata(step)
        return self._latest

    @hook(_nothing)
    def update_connector_output(self, connector_output: KVConnectorOutput) -> None:
        assert self._scheduler is not None
        sent, received = connector_output.finished_sending, connector_output.finished_recving
        if sent or received:
            self._scheduler.on_output(sent or (), received or ())
        news = connector_output.kv_connector_worker_meta
        if isinstance(news, KVFerryWorkerNews):
            if news.answers is not None:
                self._scheduler.on_answers(news.answers)
            if news.news is not None:
                self._scheduler.set_host(news.news)

    @hook(lambda: (False, None))
    def request_finished_all_groups(
        self, request: Request, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        assert self._scheduler is not None
        if not request.kv_transfer_params:
            return False, None
        answer = self._scheduler.on_finished(
            request.request_id,
            request.num_computed_tokens,
            finish_reason_of(request),
            block_ids,
        )
        return answer.delay_free, answer.params

    def request_finished(
        self, request: Request, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished_all_groups(request, (block_ids,))

    @hook(lambda: False)
    def reset_cache(self) -> bool:
        """vLLM's own cache is dropped with all that connectors keep, as after a change of weights. False: not now."""
        return self._scheduler is None or self._scheduler.reset_history()

    @guard(lambda: False)
    def has_pending_push_work(self) -> bool:
        return self._scheduler is not None and self._scheduler.has_pending

    # Worker half

    @hook(_nothing)
    def handle_preemptions(self, kv_connector_metadata: KVConnectorMetadata) -> None:
        step = kv_connector_metadata.step  # type: ignore[attr-defined]
        if step.preempted and self._worker is not None:
            self._worker.settle_preempted(step)

    @hook(_nothing)
    def bind_connector_metadata(self, connector_metadata: KVConnectorMetadata) -> None:
        self._connector_metadata = connector_metadata
        if self._is_alone:
            timer.begin_step(is_computing=False)  # which it is, only the scheduler's process knows
        step = connector_metadata.step  # type: ignore[attr-defined]
        if step.index >= 0 and self._worker is not None:
            self._worker.begin_step(step)

    @hook(KVConnectorTransferResults)
    def get_transfer_results(self, finished_req_ids: set[str]) -> KVConnectorTransferResults:
        if self._worker is None:
            return KVConnectorTransferResults()
        output = self._worker.take_output()
        # Failures are told by their blocks alone: `failed_recving` would make vLLM forget the local
        # prefix hit as well, and compute the whole prompt.
        self._invalid_block_ids |= output.invalid_block_ids
        return KVConnectorTransferResults(
            finished_sending=output.sent, finished_recving=output.received
        )

    @guard(lambda: (None, None))
    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """What runners before `get_transfer_results` call."""
        results = self.get_transfer_results(finished_req_ids)
        return results.finished_sending or None, results.finished_recving or None

    def get_block_ids_with_load_errors(self) -> set[int]:
        """In the step in which the load was reported as received, as vLLM demands."""
        invalid, self._invalid_block_ids = self._invalid_block_ids, set()
        return invalid

    @hook(_nothing)
    def build_connector_worker_meta(self) -> KVFerryWorkerNews | None:
        metadata = self._connector_metadata
        if self._worker is None or not isinstance(metadata, KVFerryMetadata):
            return None
        news, answers = self._worker.news_for(metadata.step), self._worker.take_answers()
        return None if news is None and answers is None else KVFerryWorkerNews(news, answers)

    @hook(_nothing)
    def get_kv_connector_stats(self) -> KVFerryStats | None:
        added = None if self._worker is None else self._worker.take_stats()
        return None if added is None else KVFerryStats(added)

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> KVFerryStats:
        return KVFerryStats(data or {})

    @classmethod
    def build_prom_metrics(cls, *args: Any) -> KVFerryPromMetrics:
        return KVFerryPromMetrics(*args)

    @hook(_nothing)
    def wait_for_save(self) -> None:
        """vLLM calls it when the forward was launched; on a CPU it has ended by then."""
        metadata = self._connector_metadata
        if metadata is None or self._worker is None:
            return
        step = metadata.step  # type: ignore[attr-defined]
        if step.is_saved:
            self._worker.end_forward(step)

    # Nothing happens layer by layer: loads are over before a request is scheduled, and saves are whole steps.

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        return

    def wait_for_layer_load(self, layer_name: str) -> None:
        return

    def save_kv_layer(self, layer_name: str, kv_layer: Any, *args: Any, **kwargs: Any) -> None:
        return

    # End, and a look inside

    def shutdown(self) -> None:
        """Idempotent. Ends and reaps the host process."""
        if self._worker is not None:
            self._worker.close()
        if self._pool is not None:
            self._pool.close()

    def describe(self) -> dict[str, int]:
        """Totals of this instance and of its host, for tests and tools. Waits for the host's answer."""
        counters = {} if self._worker is None else self._worker.ask_counters()
        return {"hookFailures": self.hook_failures, **counters}
