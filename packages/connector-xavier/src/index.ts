/**
 * Xavier: the decode engine claims a ticket for the KV of one request, and has the prefill engine write it
 * into its blocks.
 *
 * @packageDocumentation
 */
export { xavierLimits } from './limits.ts'
