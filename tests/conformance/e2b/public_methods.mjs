// public_methods.mjs TYPESCRIPT PACKAGE...: every public method of the classes that packages export,
// and the options it takes, read from their type declarations: {"Class.method": ["option", ...]}.
import { createRequire } from "node:module";
import path from "node:path";
import fs from "node:fs";

const [typescript, ...packages] = process.argv.slice(2);
const ts = createRequire(path.join(typescript, "x.js"))("typescript");
const roots = packages.map((directory) => {
  const description = JSON.parse(fs.readFileSync(path.join(directory, "package.json")));
  return path.join(directory, description.types ?? "dist/index.d.ts");
});
const program = ts.createProgram(roots, { target: ts.ScriptTarget.ES2022, skipLibCheck: true,
  module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext });
const checker = program.getTypeChecker();
const ours = (declaration) => packages.some((directory) =>
    declaration.getSourceFile().fileName.startsWith(fs.realpathSync(directory) + path.sep));
const found = {};

function isPublic(symbol) {
  const declaration = symbol.declarations?.[0];
  if (!declaration || !ours(declaration) || /^(_|#|constructor$|prototype$)/.test(symbol.name)) {
    return false;
  }
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
  const tags = ts.getJSDocTags(declaration).map((tag) => tag.tagName.text);
  return !(ts.getCombinedModifierFlags(declaration) & hidden) &&
      !tags.some((tag) => ["internal", "hidden", "hide"].includes(tag));
}

// The properties of parameters that are objects of declared types, and have no methods themselves.
function optionsOf(type) {
  const names = new Set();
  for (const signature of type.getCallSignatures()) {
    for (const parameter of signature.getParameters()) {
      const declaration = parameter.valueDeclaration;
      const whole = checker.getNonNullableType(checker.getTypeOfSymbolAtLocation(parameter, declaration));
      for (const each of whole.isUnion() ? whole.types : [whole]) {
        const name = each.symbol?.name ?? "";
        if (!(each.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) ||
            each.getCallSignatures().length > 0 || checker.isArrayType(each) || each.isClass() ||
            checker.getPropertiesOfType(each).some((property) =>
                property.declarations?.some((one) => ts.isMethodSignature(one))) ||
            /^(Blob|ReadableStream|ArrayBuffer|Uint8Array|Date|URL|RegExp|Map|Set)$/.test(name)) {
          continue;
        }
        for (const property of checker.getPropertiesOfType(each)) {
          if (property.declarations?.some(ours) && !property.name.startsWith("_")) {
            names.add(property.name);
          }
        }
      }
    }
  }
  return names;
}

function take(owner, type, node) {
  for (const symbol of checker.getPropertiesOfType(type)) {
    if (!isPublic(symbol)) {
      continue;
    }
    const declared = checker.getTypeOfSymbolAtLocation(symbol, node);
    const isAccessor = symbol.flags & ts.SymbolFlags.Accessor;
    if (declared.getCallSignatures().length > 0 || isAccessor) {
      const key = `${owner}.${symbol.name}`;
      found[key] = [...new Set([...(found[key] ?? []), ...optionsOf(declared)])].sort();
    }
  }
}

for (const root of roots) {
  const source = program.getSourceFile(root);
  for (let symbol of checker.getExportsOfModule(checker.getSymbolAtLocation(source))) {
    const exported = symbol.name;
    if (symbol.flags & ts.SymbolFlags.Alias) {
      symbol = checker.getAliasedSymbol(symbol);
    }
    const declaration = symbol.declarations?.find(ts.isClassDeclaration);
    if (declaration && ours(declaration) && !/Error$/.test(symbol.name)) {
      take(symbol.name, checker.getDeclaredTypeOfSymbol(symbol), declaration);
      take(symbol.name, checker.getTypeOfSymbolAtLocation(symbol, declaration), declaration);
    } else if (exported === "Template" && symbol.valueDeclaration) {
      take("Template", checker.getTypeOfSymbolAtLocation(symbol, symbol.valueDeclaration),
           symbol.valueDeclaration);
    }
  }
}
console.log(JSON.stringify(found));
