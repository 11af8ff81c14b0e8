// One hierarchy: catch AtollError for everything the SDK itself throws. An aborted call rejects
// with the signal's own reason, as fetch does.

/** What a failed answer of the server carried. */
export interface ErrorInfo {
  /** Machine-readable code of the server, such as `file_not_found`. */
  code?: string | undefined
  /** The narrower reason where there is one, such as `command_not_found`. */
  reason?: string | undefined
  /** HTTP status; absent when no answer came. */
  status?: number | undefined
  /** Names the request in the server's log. */
  requestId?: string | undefined
  /** How long the server asks to wait. */
  retryAfterMs?: number | undefined
  cause?: unknown
}

export class AtollError extends Error {
  readonly code: string | undefined
  readonly reason: string | undefined
  readonly status: number | undefined
  readonly requestId: string | undefined
  readonly retryAfterMs: number | undefined

  constructor(message: string, info: ErrorInfo = {}) {
    super(message, info.cause === undefined ? undefined : { cause: info.cause })
    this.name = new.target.name
    this.code = info.code
    this.reason = info.reason ?? info.code
    this.status = info.status
    this.requestId = info.requestId
    this.retryAfterMs = info.retryAfterMs
  }
}

/** The request is wrong and would be wrong again (400, 405, 413, 416, 422, 501). */
export class InvalidRequestError extends AtollError {}
/** There is no key, or the server does not know it (401). */
export class AuthenticationError extends AtollError {}
/** The key or the user in the sandbox may not do this (403). */
export class PermissionDeniedError extends AtollError {}
/** The sandbox, file, context or template does not exist (404). */
export class NotFoundError extends AtollError {}
/** It exists already, is busy, or has ended (409, 410, 412). */
export class ConflictError extends AtollError {}
/** Too many requests or too many things (429). */
export class RateLimitError extends AtollError {}
/** A deadline passed: the client's own, or one the server reported (408, 504). */
export class TimeoutError extends AtollError {}
/** The server failed or is not ready (other 5xx). */
export class ServerError extends AtollError {}
/** No answer: the server is not there, or the connection broke. */
export class ConnectionError extends AtollError {}

type ErrorClass = new (message: string, info: ErrorInfo) => AtollError

function classOf(status: number): ErrorClass {
  switch (status) {
    case 401:
      return AuthenticationError
    case 403:
      return PermissionDeniedError
    case 404:
      return NotFoundError
    case 409:
    case 410:
    case 412:
      return ConflictError
    case 429:
      return RateLimitError
    case 408:
    case 504:
      return TimeoutError
    default:
      return status >= 500 && status !== 501 ? ServerError : InvalidRequestError
  }
}

const MAX_ERROR_CHARACTERS = 4096

function retryAfter(headers: Headers): number | undefined {
  const seconds = Number(headers.get('retry-after') ?? Number.NaN)
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined
}

/** The error of an answer that is none of the 2xx. Reads the body. */
export async function errorOf(response: Response): Promise<AtollError> {
  const text = await response.text().catch(() => '')
  const info: ErrorInfo = {
    status: response.status,
    requestId: response.headers.get('x-request-id') ?? undefined,
    retryAfterMs: retryAfter(response.headers)
  }
  let message = text.slice(0, MAX_ERROR_CHARACTERS) || `the server answered ${response.status}`
  try {
    const error = (JSON.parse(text) as { error?: unknown }).error
    if (typeof error === 'string') {
      message = error
    } else if (typeof error === 'object' && error !== null) {
      const fields = error as { code?: string; message?: string; details?: { reason?: string } }
      message = fields.message ?? message
      info.code = fields.code
      info.reason = fields.details?.reason
    }
  } catch {
    // Not the envelope: some proxy's page. Its text is the best there is.
  }
  return new (classOf(response.status))(message, info)
}
