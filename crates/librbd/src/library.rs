//! The functions of `librados` and `librbd` that are used, found when the first image is opened.
//!
//! Nothing is linked: a host without Ceph needs no package of it.

#![allow(
    unsafe_code,
    reason = "functions of C are found by their names and have the types of their headers"
)]

use libc::{c_char, c_int, c_void, size_t, ssize_t};
use libloading::Library;
use std::sync::OnceLock;

/// A handle of one of the libraries.
pub(crate) type Handle = *mut c_void;

/// A client that has an image open for writing (`rbd_image_watcher_t`).
#[repr(C)]
pub(crate) struct RawWatcher {
    pub(crate) address: *mut c_char,
    pub(crate) id: i64,
    pub(crate) cookie: u64,
}

/// Defines [`Functions`], each with the type that its header gives it.
macro_rules! functions {
    ($( fn $name:ident($( $argument:ty ),*) $( -> $result:ty )?; )*) => {
        /// The functions. Their libraries stay loaded until the process ends: threads of theirs run until then.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $( pub(crate) $name: unsafe extern "C" fn($( $argument ),*) $( -> $result )?, )*
        }

        impl Functions {
            fn find(libraries: &[Library]) -> Result<Self, String> {
                Ok(Self {
                    $( $name: {
                        let name = concat!(stringify!($name), "\0").as_bytes();
                        let found = libraries.iter().find_map(|library| {
                            // SAFETY: the type is the one of the header.
                            unsafe { library.get(name) }.ok().map(|symbol| *symbol)
                        });
                        found.ok_or_else(|| {
                            format!("it has no {}: version 16 of Ceph is the oldest one that has all", stringify!($name))
                        })?
                    }, )*
                })
            }
        }
    };
}

functions! {
    fn rados_create(*mut Handle, *const c_char) -> c_int;
    fn rados_conf_read_file(Handle, *const c_char) -> c_int;
    fn rados_conf_set(Handle, *const c_char, *const c_char) -> c_int;
    fn rados_connect(Handle) -> c_int;
    fn rados_get_instance_id(Handle) -> u64;
    fn rados_shutdown(Handle);
    fn rados_ioctx_create(Handle, *const c_char, *mut Handle) -> c_int;
    fn rados_ioctx_set_namespace(Handle, *const c_char);
    fn rados_ioctx_destroy(Handle);
    fn rbd_open(Handle, *const c_char, *mut Handle, *const c_char) -> c_int;
    fn rbd_open_read_only(Handle, *const c_char, *mut Handle, *const c_char) -> c_int;
    fn rbd_close(Handle) -> c_int;
    fn rbd_get_size(Handle, *mut u64) -> c_int;
    fn rbd_get_features(Handle, *mut u64) -> c_int;
    fn rbd_lock_acquire(Handle, c_int) -> c_int;
    fn rbd_lock_get_owners(Handle, *mut c_int, *mut *mut c_char, *mut size_t) -> c_int;
    fn rbd_lock_get_owners_cleanup(*mut *mut c_char, size_t);
    fn rbd_lock_break(Handle, c_int, *const c_char) -> c_int;
    fn rbd_watchers_list(Handle, *mut RawWatcher, *mut size_t) -> c_int;
    fn rbd_watchers_list_cleanup(*mut RawWatcher, size_t);
    fn rbd_set_image_notification(Handle, c_int, c_int) -> c_int;
    fn rbd_poll_io_events(Handle, *mut Handle, c_int) -> c_int;
    fn rbd_aio_create_completion(*mut c_void, Option<unsafe extern "C" fn(Handle, *mut c_void)>, *mut Handle) -> c_int;
    fn rbd_aio_get_arg(Handle) -> *mut c_void;
    fn rbd_aio_get_return_value(Handle) -> ssize_t;
    fn rbd_aio_release(Handle);
    fn rbd_aio_read(Handle, u64, size_t, *mut c_char, Handle) -> c_int;
    fn rbd_aio_write(Handle, u64, size_t, *const c_char, Handle) -> c_int;
    fn rbd_aio_flush(Handle, Handle) -> c_int;
    fn rbd_aio_discard(Handle, u64, u64, Handle) -> c_int;
    fn rbd_aio_write_zeroes(Handle, u64, size_t, Handle, c_int, c_int) -> c_int;
}

/// The functions, which are loaded when they are first asked for.
///
/// # Errors
/// Why they cannot be had.
pub(crate) fn functions() -> Result<&'static Functions, &'static str> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    let loaded = FUNCTIONS.get_or_init(|| {
        let mut libraries = Vec::new();
        for name in ["librados.so.2", "librbd.so.1"] {
            // SAFETY: when they are loaded they set up nothing but their own statics.
            let library = unsafe { Library::new(name) };
            libraries.push(library.map_err(|error| error.to_string())?);
        }
        let functions = Functions::find(&libraries);
        std::mem::forget(libraries);
        functions
    });
    loaded.as_ref().map_err(String::as_str)
}
