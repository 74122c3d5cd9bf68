/** Process of the engines of `kvferry-bench micro --router`. Ends with its standard input. */
import { startStreamingEngines } from './router-engines.ts'

const { decodeUrl, prefillUrl, close } = await startStreamingEngines()
process.stdin.once('end', close).resume()
process.stdout.write(`${JSON.stringify({ event: 'ready', url: decodeUrl, prefillUrl })}\n`)
