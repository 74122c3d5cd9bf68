/**
 * KVFerry inside vLLM. The product of this package is two programs: the Python module `kvferry_vllm`, which
 * vLLM loads, and `kvferry-vllm-host`, which that module starts. This module says where the first one is.
 *
 * @packageDocumentation
 */
import { fileURLToPath } from 'node:url'

/** The folder to put on PYTHONPATH so that vLLM can import `kvferry_vllm`. */
export const pythonPath: string = fileURLToPath(new URL('../python', import.meta.url))
