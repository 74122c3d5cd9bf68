/**
 * What the published text measured with its own connector, on two RTX 3090 Ti with vLLM and a model of 0.5
 * billion parameters: shown beside our numbers, never compared with them.
 */
export const publishedLoad = [
  'published, same protocol on two GPUs: output tokens a second with snapshot / direct C16 1568 / 1736 (+10.7 %), C32 2316 / 2514 (+8.6 %);',
  '  native pull / direct C16 1783 / 1751 (−1.8 %), C32 2696 / 2593 (−3.8 %).',
  '  Cold arrivals, TTFT P50: snapshot 1836 and 1524 ms, direct 295 and 289, a fifth of it; P95 2630 and 2561 against 565 and 332; native pull 247 / 359.',
  '  Its snapshot store was slower than ours: the ratio there is not one of the protocols alone.',
] as const
