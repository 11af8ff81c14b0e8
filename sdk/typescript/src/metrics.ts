// What a sandbox uses.
import type { Call, RequestOptions } from './transport.js'
import type { WireSandboxMetrics } from './wire.js'

type WireSeries = WireSandboxMetrics['series'][number]

export type MetricName = WireSeries['metric']

export interface MetricsOptions extends RequestOptions {
  /** Default: an hour before the end. */
  start?: Date | undefined
  /** Default: now. */
  end?: Date | undefined
  /** Default: all. */
  names?: readonly MetricName[] | undefined
  stepSeconds?: number | undefined
}

/** The numbers of one moment. */
export interface SandboxUsage {
  readonly time: Date
  /** Used since the start. */
  readonly cpuSeconds: number
  readonly cpuCores: number
  readonly cpuLimitCores: number
  readonly memoryBytes: number
  /** Without file cache that can go at once. */
  readonly memoryWorkingSetBytes: number
  readonly memoryPeakBytes: number
  readonly memoryLimitBytes: number
  readonly diskBytes: number
  readonly diskLimitBytes: number
  readonly processCount: number
  readonly processLimit: number
}

export interface MetricSeries {
  readonly name: MetricName
  readonly unit: WireSeries['unit']
  readonly points: readonly { readonly time: Date; readonly value: number }[]
}

export interface SandboxMetrics {
  /** Undefined before the first sample. */
  readonly now: SandboxUsage | undefined
  readonly series: readonly MetricSeries[]
}

export function metricsCall(options: MetricsOptions): Call {
  const { signal, requestTimeoutMs, start, end, names, stepSeconds } = options
  return {
    signal,
    requestTimeoutMs,
    query: {
      start_time: start?.toISOString(),
      end_time: end?.toISOString(),
      metrics: names?.join(','),
      step_seconds: stepSeconds
    }
  }
}

export function sandboxMetrics({ current, series }: WireSandboxMetrics): SandboxMetrics {
  return {
    now: current === null ? undefined : usageOf(current),
    series: series.map(each => ({
      name: each.metric,
      unit: each.unit,
      points: each.segments
        .flatMap(segment => segment.points)
        .map(({ time, value }) => ({ time: new Date(time), value }))
    }))
  }
}

function usageOf(now: NonNullable<WireSandboxMetrics['current']>): SandboxUsage {
  return {
    time: new Date(now.time),
    cpuSeconds: now.cpu_seconds,
    cpuCores: now.cpu_cores,
    cpuLimitCores: now.cpu_limit_cores,
    memoryBytes: now.memory_bytes,
    memoryWorkingSetBytes: now.memory_working_set_bytes,
    memoryPeakBytes: now.memory_peak_bytes,
    memoryLimitBytes: now.memory_limit_bytes,
    diskBytes: now.disk_bytes,
    diskLimitBytes: now.disk_limit_bytes,
    processCount: now.process_count,
    processLimit: now.process_limit
  }
}
