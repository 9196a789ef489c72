//! The functions of `libiscsi` that are used, found when the first session begins.
//!
//! Nothing is linked: a host without iSCSI needs no package of it.

#![allow(
    unsafe_code,
    reason = "functions of C are found by their names and have the types of their headers"
)]

use libc::{c_char, c_int, c_uchar, c_void};
use libloading::Library;
use std::sync::OnceLock;

/// A handle of the library.
pub(crate) type Handle = *mut c_void;

/// What the library calls when a command has ended: context, status, task, what was given with the command.
pub(crate) type Callback = unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void);

/// What a `struct scsi_task` begins with, in every version of the library since 1.7.
#[repr(C)]
pub(crate) struct Task {
    pub(crate) status: c_int,
    pub(crate) cdb_size: c_int,
    pub(crate) direction: c_int,
    pub(crate) expected: c_int,
    pub(crate) cdb: [u8; 16],
    residual_status: c_int,
    pub(crate) residual: usize,
    sense_error: u8,
    pub(crate) sense_key: c_int,
    pub(crate) sense_code: c_int,
}

/// The names that the library has had, newest first.
const NAMES: [&str; 6] = [
    "libiscsi.so.11",
    "libiscsi.so.10",
    "libiscsi.so.9",
    "libiscsi.so.8",
    "libiscsi.so.7",
    "libiscsi.so",
];

/// Defines [`Functions`], each with the type that its header gives it.
macro_rules! functions {
    ($( fn $name:ident($( $argument:ty ),*) $( -> $result:ty )?; )*) => {
        /// The functions. Their library stays loaded until the process ends.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $( pub(crate) $name: unsafe extern "C" fn($( $argument ),*) $( -> $result )?, )*
        }

        impl Functions {
            fn find(library: &Library) -> Result<Self, String> {
                Ok(Self {
                    $( $name: {
                        let name = concat!(stringify!($name), "\0").as_bytes();
                        // SAFETY: the type is the one of the header.
                        let found = unsafe { library.get(name) };
                        *found.map_err(|error| error.to_string())?
                    }, )*
                })
            }
        }
    };
}

functions! {
    fn iscsi_create_context(*const c_char) -> Handle;
    fn iscsi_destroy_context(Handle) -> c_int;
    fn iscsi_set_targetname(Handle, *const c_char) -> c_int;
    fn iscsi_set_session_type(Handle, c_int) -> c_int;
    fn iscsi_set_isid_random(Handle, u32, u32) -> c_int;
    fn iscsi_set_initiator_username_pwd(Handle, *const c_char, *const c_char) -> c_int;
    fn iscsi_set_target_username_pwd(Handle, *const c_char, *const c_char) -> c_int;
    fn iscsi_set_timeout(Handle, c_int) -> c_int;
    fn iscsi_set_noautoreconnect(Handle, c_int);
    fn iscsi_full_connect_sync(Handle, *const c_char, c_int) -> c_int;
    fn iscsi_logout_sync(Handle) -> c_int;
    fn iscsi_task_mgmt_lun_reset_sync(Handle, u32) -> c_int;
    fn iscsi_get_error(Handle) -> *const c_char;
    fn iscsi_get_fd(Handle) -> c_int;
    fn iscsi_which_events(Handle) -> c_int;
    fn iscsi_service(Handle, c_int) -> c_int;
    fn iscsi_scsi_command_async(Handle, c_int, *mut Task, Callback, *mut c_void, *mut c_void) -> c_int;
    fn iscsi_scsi_command_sync(Handle, c_int, *mut Task, *mut c_void) -> *mut Task;
    fn scsi_create_task(c_int, *mut c_uchar, c_int, c_int) -> *mut Task;
    fn scsi_free_scsi_task(*mut Task);
    fn scsi_task_add_data_in_buffer(*mut Task, c_int, *mut c_uchar) -> c_int;
    fn scsi_task_add_data_out_buffer(*mut Task, c_int, *mut c_uchar) -> c_int;
}

impl Functions {
    /// Whether a task of this library looks as we believe: a made-up command is found where it should be.
    fn tasks_look_right(&self) -> bool {
        let mut cdb: [u8; 16] = std::array::from_fn(|at| u8::try_from(at * 7 + 1).unwrap_or(0));
        // SAFETY: the command has as many bytes as is said.
        let task = unsafe { (self.scsi_create_task)(16, cdb.as_mut_ptr(), 1, 4242) };
        if task.is_null() {
            return false;
        }
        // SAFETY: the library has made it, and it is longer than what is looked at.
        let seen = unsafe { &*task };
        let right = seen.cdb_size == 16
            && seen.direction == 1
            && seen.expected == 4242
            && seen.cdb == cdb
            && seen.residual == 0
            && seen.sense_key == 0;
        // SAFETY: nobody uses it afterwards.
        unsafe { (self.scsi_free_scsi_task)(task) };
        right
    }
}

/// The functions, which are loaded when they are first asked for.
///
/// # Errors
/// Why they cannot be had.
pub(crate) fn functions() -> Result<&'static Functions, &'static str> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    let loaded = FUNCTIONS.get_or_init(|| {
        // SAFETY: when it is loaded it sets up nothing but its own statics.
        let load = |name: &&str| unsafe { Library::new(name) }.ok();
        let library = NAMES.iter().find_map(load);
        let library = library.ok_or("there is no libiscsi.so")?;
        let functions = Functions::find(&library)?;
        std::mem::forget(library);
        if functions.tasks_look_right() {
            Ok(functions)
        } else {
            Err("this version has tasks of another shape".to_owned())
        }
    });
    loaded.as_ref().map_err(String::as_str)
}
