//! Source locations that are the same on every machine.

use std::path::{Component, Path};

use cutile_ir::ir::{DIFile, DebugScope, Location, Module};

/// The device crate, as cargo compiled it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) folder: &'static str,
}

impl Package {
    /// `package/src/lib.rs` for a file of the package, which rustc calls by its absolute path or by one from the
    /// workspace's root; and `cutile-0.5.0/src/core.rs` for a file of another one.
    fn relative(self, file: &str) -> String {
        let (path, folder) = (Path::new(file), Path::new(self.folder));
        let inside = folder
            .ancestors()
            .filter_map(|above| folder.strip_prefix(above).ok())
            .chain([folder])
            .filter(|tail| !tail.as_os_str().is_empty())
            .filter_map(|tail| path.strip_prefix(tail).ok())
            .min_by_key(|rest| rest.components().count());
        match inside {
            Some(rest) => Path::new(self.name).join(rest).display().to_string(),
            None if path.starts_with("src") => Path::new(self.name).join(path).display().to_string(),
            None => other_package(path),
        }
    }

    /// Make every location in the module relative.
    pub(crate) fn relocate(self, module: &mut Module) {
        let mut left = module.functions.clone();
        while let Some(id) = left.pop() {
            self.relocate_one(&mut module.op_mut(id).location);
            for region in module.op(id).regions.clone() {
                for &block in &module.region(region).blocks {
                    left.extend(&module.block(block).ops);
                }
            }
        }
    }

    fn relocate_one(self, location: &mut Location) {
        match location {
            Location::Unknown => {}
            Location::FileLineCol { filename, .. } => *filename = self.relative(filename),
            Location::DebugInfo(debug) => {
                debug.filename = self.relative(&debug.filename);
                self.relocate_scope(&mut debug.scope);
            }
            Location::CallSite { callee, caller } => {
                self.relocate_one(callee);
                self.relocate_one(caller);
            }
        }
    }

    fn relocate_scope(self, scope: &mut DebugScope) {
        match scope {
            DebugScope::Subprogram(subprogram) => {
                self.relocate_file(&mut subprogram.file);
                self.relocate_file(&mut subprogram.compile_unit.file);
            }
            DebugScope::LexicalBlock(block) => {
                self.relocate_file(&mut block.file);
                self.relocate_scope(&mut block.scope);
            }
        }
    }

    fn relocate_file(self, file: &mut DIFile) {
        let path = self.relative(&Path::new(&file.directory).join(&file.name).display().to_string());
        (file.directory, file.name) = match path.rsplit_once('/') {
            Some((directory, name)) => (directory.to_owned(), name.to_owned()),
            None => (String::new(), path),
        };
    }
}

/// The path from the folder above the last `src`, which cargo names after the package and its version.
fn other_package(path: &Path) -> String {
    let parts: Vec<_> = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let source = parts.iter().rposition(|part| part.as_os_str() == "src").unwrap_or(parts.len().saturating_sub(1));
    parts[source.saturating_sub(1)..].iter().collect::<std::path::PathBuf>().display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: Package = Package { name: "silu-device", folder: "/home/me/yard/kernels/silu/device" };

    #[test]
    fn files_of_the_package_are_called_the_same_wherever_it_lies() {
        for file in ["/home/me/yard/kernels/silu/device/src/a/b.rs", "kernels/silu/device/src/a/b.rs", "src/a/b.rs"] {
            assert_eq!(PACKAGE.relative(file), "silu-device/src/a/b.rs");
        }
    }

    #[test]
    fn files_of_other_packages_too() {
        let file = "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cutile-0.5.0/src/_core.rs";
        assert_eq!(PACKAGE.relative(file), "cutile-0.5.0/src/_core.rs");
        assert_eq!(PACKAGE.relative("kernels/shared/src/lib.rs"), "shared/src/lib.rs");
    }
}
