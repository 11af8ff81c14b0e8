# Atoll's R driver: runs inside the sandbox, reads descriptor 5 and writes descriptor 4.
#
# In: lines "exec ID BASE64(CODE) [ENVIRONMENT]". Out: JSON lines. Code is evaluated in the global
# environment; visible values are printed but for the last, which is the result. Plots go to files
# and are shown when the code has ended. SIGINT interrupts the running code and nothing else.
local({
  channel_in <- file("/dev/fd/5", open = "r", blocking = TRUE, raw = TRUE)
  channel_out <- file("/dev/fd/4", open = "w", raw = TRUE)
  alphabet <- c(LETTERS, letters, 0:9, "+", "/")

  decode <- function(text) {
    characters <- strsplit(text, "", fixed = TRUE)[[1]]
    numbers <- match(characters[characters != "="], alphabet) - 1L
    if (length(numbers) == 0L) return("")
    bytes <- floor(length(numbers) * 3 / 4)
    quads <- matrix(c(numbers, rep(0L, -length(numbers) %% 4L)), nrow = 4L)
    words <- quads[1L, ] * 262144L + quads[2L, ] * 4096L + quads[3L, ] * 64L + quads[4L, ]
    all <- rbind(words %/% 65536L, words %/% 256L %% 256L, words %% 256L)
    text <- rawToChar(as.raw(all)[seq_len(bytes)])
    Encoding(text) <- "UTF-8"
    text
  }

  encode <- function(bytes) {
    count <- length(bytes)
    numbers <- c(as.integer(bytes), rep(0L, -count %% 3L))
    words <- matrix(numbers, nrow = 3L)
    words <- words[1L, ] * 65536L + words[2L, ] * 256L + words[3L, ]
    quads <- rbind(words %/% 262144L, words %/% 4096L %% 64L, words %/% 64L %% 64L, words %% 64L)
    characters <- alphabet[quads + 1L]
    padding <- -count %% 3L
    if (padding > 0L) characters[length(characters) - seq_len(padding) + 1L] <- "="
    paste(characters, collapse = "")
  }

  quoted <- function(text) {
    text <- enc2utf8(paste(text, collapse = "\n"))
    for (pair in list(c("\\", "\\\\"), c("\"", "\\\""), c("\n", "\\n"), c("\r", "\\r"), c("\t", "\\t"))) {
      text <- gsub(pair[1L], pair[2L], text, fixed = TRUE)
    }
    paste0("\"", gsub("[\001-\037\177]", "?", text), "\"")
  }

  send <- function(...) {
    fields <- list(...)
    members <- vapply(names(fields), function(name) {
      value <- fields[[name]]
      paste0("\"", name, "\":", if (is.character(value)) quoted(value) else format(value))
    }, "")
    cat("{", paste(members, collapse = ","), "}\n", sep = "", file = channel_out)
    flush(channel_out)
  }

  send_data <- function(op, id, mime, text) {
    cat("{\"op\":\"", op, "\",\"id\":\"", id, "\",\"data\":{\"", mime, "\":", quoted(text), "}}\n",
        sep = "", file = channel_out)
    flush(channel_out)
  }

  set_variable <- function(name, value) {
    arguments <- list(value)
    names(arguments) <- name
    do.call(Sys.setenv, arguments)
  }

  set_environment <- function(words) {
    before <- list()
    for (pair in strsplit(words, ",", fixed = TRUE)[[1]]) {
      halves <- strsplit(pair, ":", fixed = TRUE)[[1]]
      name <- decode(halves[1L])
      before[[name]] <- Sys.getenv(name, unset = NA)
      set_variable(name, if (length(halves) > 1L) decode(halves[2L]) else "")
    }
    before
  }

  restore_environment <- function(before) {
    for (name in names(before)) {
      if (is.na(before[[name]])) Sys.unsetenv(name)
      else set_variable(name, before[[name]])
    }
  }

  plots <- file.path(tempdir(), "plot-%03d.png")
  options(device = function(...) grDevices::png(plots, width = 800, height = 600, type = "cairo"),
          warn = 1L)

  show_plots <- function(id) {
    grDevices::graphics.off()
    files <- sort(list.files(tempdir(), "^plot-[0-9]+[.]png$", full.names = TRUE))
    for (path in files) {
      send_data("display", id, "image/png", encode(readBin(path, "raw", file.size(path))))
    }
    unlink(files)
  }

  evaluate <- function(id, code) {
    expressions <- parse(text = code, keep.source = FALSE)
    for (number in seq_along(expressions)) {
      shown <- withVisible(eval(expressions[[number]], globalenv()))
      if (!shown$visible) next
      if (number < length(expressions)) print(shown$value)
      else {
        text <- utils::capture.output(print(shown$value))
        if (length(text) > 0L) send_data("result", id, "text/plain", text)
      }
    }
  }

  executions <- 0L
  execute <- function(id, code, environment) {
    executions <<- executions + 1L
    status <- "ok"
    before <- set_environment(environment)
    tryCatch(evaluate(id, code), error = function(problem) {
      status <<- "error"
      call <- conditionCall(problem)
      where <- if (is.null(call)) "Error: " else paste0("Error in ", deparse(call)[1L], " : ")
      send(op = "error", id = id, name = class(problem)[1L], value = conditionMessage(problem),
           traceback = paste0(where, conditionMessage(problem)))
    }, interrupt = function(...) {
      status <<- "interrupted"
      send(op = "error", id = id, name = "Interrupted", value = "interrupted", traceback = "interrupted")
    })
    tryCatch(show_plots(id), error = function(...) NULL)
    restore_environment(before)
    flush(stdout())
    send(op = "done", id = id, status = status, count = executions)
  }

  send(op = "ready", language = "r", version = as.character(getRversion()))
  repeat {
    line <- NULL
    # An interrupt that nothing is there for comes out when the line is safe.
    tryCatch({
      suspendInterrupts(line <- readLines(channel_in, n = 1L))
      Sys.sleep(0)
    }, interrupt = function(...) NULL)
    if (is.null(line)) next
    if (length(line) == 0L) quit(save = "no")
    words <- strsplit(line, " ", fixed = TRUE)[[1]]
    if (words[1L] == "exec") {
      execute(words[2L], if (length(words) > 2L) decode(words[3L]) else "",
              if (length(words) > 3L) words[4L] else "")
    } else if (words[1L] == "resize") {
      Sys.setenv(LINES = words[2L], COLUMNS = words[3L])
    }
  }
})
