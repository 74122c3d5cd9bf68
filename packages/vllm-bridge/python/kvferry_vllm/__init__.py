"""KVFerry inside vLLM: a KV connector whose protocol runs in a Node process beside the engine.

vLLM loads it by `kv_connector_module_path`: `"kv_connector": "KVFerryConnector"`,
`"kv_connector_module_path": "kvferry_vllm.connector"`. Importing this package alone imports nothing of vLLM.
"""
