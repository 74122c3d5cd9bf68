"""Bounds of the shim, with their units and reasons. `bridge` in the connector's extra config changes some."""

#: From spawn to the host's "ready": Node, NIXL, and the registration of the whole KV cache.
START_TIMEOUT_S = 60.0
#: A host that answers nothing for this long is stuck. Its JavaScript thread never waits for bytes, but on a
#: machine whose cores all spin for vLLM a healthy one was silent for 10 s.
HOST_ANSWER_TIMEOUT_S = 30.0
#: While something is open, the host is asked for a sign of life this often.
PING_INTERVAL_S = 1.0
#: Between two looks at the socket of a host of which nothing is expected.
QUIET_LOOK_INTERVAL_S = 0.1
#: A load without an end after this ends the host (its READ may still write until then): architecture §6.
LOAD_TIMEOUT_S = 120.0
#: For a host that ends by itself after its socket was closed; then it's killed.
SHUTDOWN_TIMEOUT_S = 15.0
#: For the kernel to end a killed host.
KILL_TIMEOUT_S = 5.0
#: Starts of a host after its deaths, within `RESTART_WINDOW_S`. Beyond it the engine goes on without transfers
#: until the first of them is older than that.
RESTART_COUNT_MAX = 3
RESTART_WINDOW_S = 60.0
#: One message, either way. The longest prompt's block ids, as text, twice.
MESSAGE_SIZE_BYTES_MAX = 16 * 1024 * 1024
#: Bytes that a host may leave unread before it counts as stuck.
BACKLOG_SIZE_BYTES_MAX = 64 * 1024 * 1024
#: `kv_transfer_params` of one request as JSON (`limits.handoffSizeBytesMax` of connector-api).
PARAMS_SIZE_BYTES_MAX = 1_048_576
#: Samples kept by the hook timer; beyond it the oldest are overwritten.
HOOK_SAMPLE_COUNT_MAX = 65_536
