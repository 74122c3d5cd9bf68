/** Names go into file names and request ids, whose alphabet is narrower than a label's. */
export const safeName = (label: string): string => label.replaceAll(/[^A-Za-z0-9._-]/g, '-')
