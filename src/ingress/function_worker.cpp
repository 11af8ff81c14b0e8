#include "ingress/function_worker.h"

#include "base/json.h"

namespace atl::ingress {

std::vector<std::string> worker_command(const control::ServiceFunction& function) {
  if (function.language == control::ServiceFunction::Language::kJavascript) {
    return {"node", "-e",
            "const CONFIG=JSON.parse(require('fs').readFileSync(0));"
            "new Function('require','CONFIG','process',CONFIG.driver)(require,CONFIG,process)"};
  }
  return {"python3", "-u", "-c",
          "import sys,json\n"
          "CONFIG=json.loads(sys.stdin.buffer.read())\n"
          "exec(compile(CONFIG['driver'],'<function worker>','exec'),"
          "{'__name__':'function_worker','CONFIG':CONFIG})"};
}

std::string worker_input(const control::Service& service) {
  const auto& function = *service.function;
  const bool python = function.language == control::ServiceFunction::Language::kPython;
  return Json::object({{"driver", python ? kPythonWorker : kNodeWorker},
                       {"code", function.code},
                       {"handler", function.handler},
                       {"service_id", service.id},
                       {"max_concurrency", function.max_concurrency}})
      .dump();
}

}  // namespace atl::ingress
