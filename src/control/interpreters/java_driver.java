// Atoll's Java driver: runs inside the sandbox, reads descriptor 5 and writes descriptor 4.
//
// In: lines "exec ID BASE64(CODE) [ENVIRONMENT]". Out: JSON lines. Code goes to jshell's own engine,
// statement by statement, in this very process, so its output is the process's own. SIGINT stops the
// running code and nothing else. A JVM cannot change its environment: variables of one piece of code
// are refused.
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;

class Driver {
  static final int LONGEST_STACK = 50;
  final JShell shell = JShell.builder().executionEngine("local").out(System.out).err(System.err).build();
  final OutputStream channel;
  volatile boolean running, stopped;

  Driver(OutputStream channel) {
    this.channel = channel;
    for (String name : List.of("java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.util.*",
        "java.util.concurrent.*", "java.util.function.*", "java.util.regex.*", "java.util.stream.*")) {
      shell.eval("import " + name + ";");
    }
  }

  static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else if (c < 0x20) out.append(String.format("\\u%04x", (int) c));
      else out.append(c);
    }
    return out.append('"').toString();
  }

  void send(String members) throws Exception {
    channel.write(("{" + members + "}\n").getBytes(StandardCharsets.UTF_8));
    channel.flush();
  }

  void sendError(String id, String name, String value, String traceback) throws Exception {
    send("\"op\":\"error\",\"id\":" + quoted(id) + ",\"name\":" + quoted(name) + ",\"value\":" + quoted(value)
        + ",\"traceback\":" + quoted(traceback));
  }

  static String traceback(EvalException problem) {
    StringBuilder out = new StringBuilder(problem.getExceptionClassName() + ": " + problem.getMessage());
    StackTraceElement[] stack = problem.getStackTrace();
    for (int i = 0; i < Math.min(stack.length, LONGEST_STACK); i++) out.append("\n    at ").append(stack[i]);
    return out.toString();
  }

  // True: the rest is not to be run.
  boolean failed(String id, SnippetEvent event) throws Exception {
    if (event.status() == Snippet.Status.REJECTED) {
      StringBuilder said = new StringBuilder();
      shell.diagnostics(event.snippet()).forEach(each -> said.append(each.getMessage(Locale.ROOT)).append('\n'));
      sendError(id, "CompilationError", said.toString().strip(), said.toString().strip());
      return true;
    }
    JShellException problem = event.exception();
    if (problem instanceof EvalException thrown) {
      sendError(id, thrown.getExceptionClassName(), String.valueOf(thrown.getMessage()), traceback(thrown));
    } else if (problem != null) {
      sendError(id, "UnresolvedReference", String.valueOf(problem.getMessage()), String.valueOf(problem.getMessage()));
    }
    return problem != null;
  }

  String run(String id, String code) throws Exception {
    String rest = code;
    String value = null;
    while (!rest.isBlank()) {
      SourceCodeAnalysis.CompletionInfo part = shell.sourceCodeAnalysis().analyzeCompletion(rest);
      if (!part.completeness().isComplete() && part.source() == null) {
        sendError(id, "CompilationError", "the code is not complete", "the code is not complete");
        return "error";
      }
      value = null;
      for (SnippetEvent event : shell.eval(part.source() == null ? rest : part.source())) {
        if (stopped) {
          sendError(id, "Interrupted", "interrupted", "interrupted");
          return "interrupted";
        }
        if (failed(id, event)) return "error";
        boolean shows = event.snippet().subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND
            || event.snippet().subKind() == Snippet.SubKind.VAR_VALUE_SUBKIND;
        if (event.causeSnippet() == null && shows) value = event.value();
      }
      rest = part.source() == null ? "" : part.remaining();
    }
    if (value != null && !value.isEmpty()) {
      send("\"op\":\"result\",\"id\":" + quoted(id) + ",\"data\":{\"text/plain\":" + quoted(value) + "}");
    }
    return "ok";
  }

  void serve(BufferedReader lines) throws Exception {
    sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> {
      if (running) {
        stopped = true;
        shell.stop();
      }
    });
    send("\"op\":\"ready\",\"language\":\"java\",\"version\":" + quoted(System.getProperty("java.version")));
    int executions = 0;
    for (String line; (line = lines.readLine()) != null;) {
      String[] words = line.split(" ");
      if (!words[0].equals("exec")) continue;
      String id = words[1];
      String status = "error";
      if (words.length > 3) {
        sendError(id, "UnsupportedOperationException", "Java cannot change its environment",
            "Java cannot change its environment; give variables when the sandbox is made");
      } else {
        stopped = false;
        running = true;
        String code = words.length < 3 ? "" : new String(Base64.getDecoder().decode(words[2]), StandardCharsets.UTF_8);
        status = run(id, code);
        running = false;
      }
      System.out.flush();
      System.err.flush();
      send("\"op\":\"done\",\"id\":" + quoted(id) + ",\"status\":\"" + status + "\",\"count\":" + ++executions);
    }
  }

  public static void main(String[] arguments) throws Exception {
    System.setOut(new PrintStream(System.out, true, StandardCharsets.UTF_8));
    Driver driver = new Driver(new FileOutputStream("/dev/fd/4"));
    driver.serve(new BufferedReader(new InputStreamReader(new FileInputStream("/dev/fd/5"), StandardCharsets.UTF_8)));
    System.exit(0);
  }
}
