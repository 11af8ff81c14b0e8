// Waiting and giving up.

export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason)
      return
    }
    const onAbort = (): void => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, milliseconds)
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/**
 * A signal that follows the caller's and can also be aborted here. `release` ends the following, so
 * that a long-lived signal of the caller does not collect listeners.
 */
export interface LinkedAbort {
  readonly signal: AbortSignal
  abort(reason: unknown): void
  release(): void
}

export function linkAbort(parent: AbortSignal | undefined): LinkedAbort {
  const controller = new AbortController()
  const follow = (): void => controller.abort(parent?.reason)
  if (parent?.aborted) {
    follow()
  } else {
    parent?.addEventListener('abort', follow, { once: true })
  }
  return {
    signal: controller.signal,
    abort: reason => controller.abort(reason),
    release: () => parent?.removeEventListener('abort', follow)
  }
}

/** Seconds, or text such as `90s`, `15m`, `2h`, `7d`. */
export type Duration = number | `${number}${'s' | 'm' | 'h' | 'd'}`

const SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 } as const

export function seconds(duration: Duration): number {
  if (typeof duration === 'number') {
    return Math.ceil(duration)
  }
  const unit = duration.slice(-1) as keyof typeof SECONDS
  const value = Number(duration.slice(0, -1)) * SECONDS[unit]
  if (!Number.isFinite(value)) {
    throw new TypeError(`"${duration}" is no duration; give seconds or text such as "15m"`)
  }
  return Math.ceil(value)
}

/** Rejects as soon as the signal aborts; what still comes of the work is then cleaned up. */
export async function unlessAborted<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  cleanUp: (late: T) => Promise<unknown>
): Promise<T> {
  if (signal === undefined) {
    return work
  }
  let onAbort = (): void => undefined
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => {
      reject(signal.reason)
      work.then(cleanUp).catch(() => undefined)
    }
    signal.addEventListener('abort', onAbort, { once: true })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
